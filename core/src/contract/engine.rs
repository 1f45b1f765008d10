//! An engine stores lines: ten operations, its guarantees, eight promises.

use std::time::Duration;

use crate::event::{Cursor, EventBatch, Scope};
use crate::{
    Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket, TicketState, WaitMode,
};

/// A client of one store, which stores lines of tickets.
///
/// All of Tenure relies on these promises. The suite in `tenure-conformance` has a test for each.
///
/// 1. **Order.** A join is one atomic step, to the back of the line.
/// 2. **Numbers.** A ticket's number is larger than every earlier number of its key: across an
///    empty line, a restart, a clean-up, a break, a loss of data. If the store has a counter that
///    never restarts, that is the number. Otherwise it is `max(last + 1, the store's clock in µs)`.
///    It is at least the ticket's [`floor`](Ticket::floor). After a renewal, later numbers are
///    above the floor.
/// 3. **Rule.** [`served`](crate::served) alone decides which tickets hold. A share of another
///    capacity than the line's is refused as [`Invalid`](crate::ErrorKind::Invalid).
/// 4. **Twice is once.** Any operation may be sent again with the same ticket and then changes
///    nothing more. A renewal never brings back a ticket that is gone. ([`add`](Engine::add) is the
///    exception: sent again after an unknown outcome it may skip numbers, and gives none twice.)
/// 5. **Life.** A ticket that is not renewed for its `ttl`, by the store's clock, leaves the line,
///    and never sooner. Client clocks decide nothing. An expiry never moves backwards. A join and a
///    renewal both start a new ttl.
/// 6. **Authority.** Answers come from the store's authoritative state, never from a stale copy.
/// 7. **Names.** Every [`Key`] is its own lock. The engine touches only names of Tenure's.
/// 8. **Time.** Every operation but [`watch`](Engine::watch), [`events`](Engine::events) and
///    [`close`](Engine::close) answers within [`Guarantees::answers_within`]. A silent store is
///    [`Unavailable`](crate::ErrorKind::Unavailable) then. The time includes connecting, and does
///    not grow with the number of callers.
///
/// [`Unavailable`](crate::ErrorKind::Unavailable) means that the outcome is *unknown*: the
/// operation may have happened, or may still happen. Any other error means that nothing was
/// changed.
///
/// Dropping the future of an operation at any point is safe, and leaves the outcome unknown.
///
/// There are no default methods, because they hide gaps.
///
/// The operations, on the memory engine:
///
/// ```
/// use tenure::engine::{Engine, LeaveMode, Memory, WaitMode, Wake};
/// use tenure::inspect::{LeaveOutcome, Share, Ticket, TicketState};
/// use tenure::Key;
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let keys = [Key::new("a")?, Key::new("a")?];
/// let [first, second] = keys.map(|key| Ticket::new(key, Share::WHOLE));
/// let holds = engine.join(&first, WaitMode::Wait).await?.expect("it waits");
/// let waits = engine.join(&second, WaitMode::Wait).await?.expect("it waits");
/// assert_eq!((holds.state, waits.state), (TicketState::Holding, TicketState::Waiting));
/// assert!(waits.number > holds.number);
///
/// assert_eq!(engine.leave(&first, LeaveMode::Now).await?, LeaveOutcome::Holding);
/// assert_eq!(engine.watch(&second, TicketState::Waiting).await?, Wake::Served(waits.number));
/// assert!(engine.renew(&first).await?.is_none(), "a renewal never brings back what is gone");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub trait Engine: Send + Sync + 'static {
    /// The properties of this store.
    fn guarantees(&self) -> Guarantees;

    /// Puts the ticket at the back of its line. A ticket that is in the line keeps its place.
    ///
    /// `None`: with [`WaitMode::NoWait`], the ticket could not be served at once. Nothing was
    /// changed.
    fn join(
        &self,
        ticket: &Ticket,
        mode: WaitMode,
    ) -> impl Future<Output = Result<Option<Place>>> + Send;

    /// Starts the ticket's ttl again. It also writes the ticket's note, and its share, which can
    /// only shrink.
    ///
    /// `None`: the ticket is out of the line, for good. A ticket that was asked to leave gets
    /// [`Place::leaving`], and is not renewed.
    fn renew(&self, ticket: &Ticket) -> impl Future<Output = Result<Option<Place>>> + Send;

    /// Removes a ticket of this or another client. It uses only the ticket's id and key.
    fn leave(
        &self,
        ticket: &Ticket,
        how: LeaveMode,
    ) -> impl Future<Output = Result<LeaveOutcome>> + Send;

    /// Waits until the ticket's state may differ from `seen`: it may be served, asked to leave, or
    /// gone.
    ///
    /// Changes between the ticket's join and this call count. The return is a hint: it may come
    /// without a change. A store without push may never return, and the next renewal finds the
    /// change.
    fn watch(
        &self,
        ticket: &Ticket,
        seen: TicketState,
    ) -> impl Future<Output = Result<Wake>> + Send;

    /// Waits for events of the lines in `scope` after the cursor. Without a cursor it answers at
    /// once, with the present cursor and no events.
    fn events(
        &self,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> impl Future<Output = Result<EventBatch>> + Send;

    /// The tickets of a line, from the front. [`Place::life`] is the time until each expires.
    fn line(&self, key: &Key) -> impl Future<Output = Result<Vec<(Ticket, Place)>>> + Send;

    /// The keys that begin with `prefix` and have a ticket, in order.
    fn keys(&self, prefix: &str) -> impl Future<Output = Result<Vec<Key>>> + Send;

    /// Adds to a number that is stored beside the line.
    ///
    /// Without a window it is a sequence: the answer is the value after the addition. While the
    /// store keeps its data, no number is given twice. With a window it is a count that starts
    /// again when the window ends.
    fn add(
        &self,
        key: &Key,
        by: u64,
        window: Option<Window>,
    ) -> impl Future<Output = Result<CounterValue>> + Send;

    /// Replaces the value of a key if it equals `seen`. Returns the value after the operation. It
    /// equals `value` if the swap was done, by this request or an earlier one.
    ///
    /// A value is a text of at most [`VALUE_BYTES_MAX`], stored beside the line and as durable as a
    /// sequence. A key without a value has the empty text, and the empty text removes the value. A
    /// swap of `""` with `""` reads.
    ///
    /// Callers do not write the same non-empty text twice. A request that arrives late then finds
    /// another text than `seen`, and changes nothing.
    fn swap(
        &self,
        key: &Key,
        seen: &str,
        value: &str,
    ) -> impl Future<Output = Result<String>> + Send;

    /// Waits until no request of this client is in flight, and ends its session. Later operations
    /// may be [`Unavailable`](crate::ErrorKind::Unavailable).
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Maximum length of a value, in bytes of UTF-8.
pub const VALUE_BYTES_MAX: usize = 256 * 1024;

/// The answer of [`watch`](Engine::watch).
///
/// ```
/// use tenure::engine::{Engine, LeaveMode, Memory, WaitMode, Wake};
/// use tenure::inspect::{Share, Ticket, TicketState};
/// use tenure::Key;
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let keys = [Key::new("a")?, Key::new("a")?];
/// let [first, second] = keys.map(|key| Ticket::new(key, Share::WHOLE));
/// engine.join(&first, WaitMode::Wait).await?;
/// let place = engine.join(&second, WaitMode::Wait).await?.expect("it waits");
/// engine.leave(&first, LeaveMode::Now).await?;
/// match engine.watch(&second, place.state).await? {
///     Wake::Served(number) => assert_eq!(number, place.number),
///     Wake::Look => panic!("this engine answers with the number"),
/// }
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The ticket's state may have changed: renew it to read the state.
    Look,
    /// The ticket is served, with this number. Its ttl still runs from its last renewal.
    Served(u64),
}

/// The window of a counter, and its limit.
///
/// ```
/// use std::time::Duration;
///
/// use tenure::engine::{Engine, Memory};
/// use tenure::{Key, Window};
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let window = Window { per: Duration::from_secs(60), limit: Some(5) };
/// let key = Key::new("mails/alice")?;
/// assert!(engine.add(&key, 5, Some(window)).await?.allowed);
/// assert!(!engine.add(&key, 1, Some(window)).await?.allowed);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The time from the first count to the end of the window.
    pub per: Duration,
    /// The maximum count in a window. An addition that would exceed it changes nothing.
    pub limit: Option<u64>,
}

/// The result of an addition to a counter or sequence.
///
/// ```
/// use std::time::Duration;
///
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let mails = locks.counter("mails/alice").window(Duration::from_secs(60)).limit(1);
/// assert!(mails.add(1).await?.allowed);
/// let refused = mails.add(1).await?;
/// assert_eq!((refused.allowed, refused.value), (false, 1));
/// assert!(refused.resets_in.is_some_and(|time| time <= Duration::from_secs(60)));
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a count above its limit is refused, and only `allowed` says so"]
#[non_exhaustive]
pub struct CounterValue {
    /// The value, after the addition if it was allowed.
    pub value: u64,
    /// Whether the addition was within the limit.
    pub allowed: bool,
    /// The time until the window ends; `None` for a sequence.
    pub resets_in: Option<Duration>,
}

impl CounterValue {
    /// The answer of an engine about a count.
    pub fn new(value: u64, allowed: bool, resets_in: Option<Duration>) -> Self {
        Self { value, allowed, resets_in }
    }

    /// The answer of an engine about a sequence, which has no limit and no window.
    pub fn of_sequence(value: u64) -> Self {
        Self::new(value, true, None)
    }
}
