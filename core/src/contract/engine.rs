//! An engine keeps lines in a store: nine verbs, a profile, eight promises.

use std::time::Duration;

use crate::event::{Cursor, EventBatch, Scope};
use crate::{
    Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket, TicketState, WaitMode,
};

/// What keeps the lines: one store, spoken to by one client.
///
/// Everything else in Tenure stands on these promises. The suite in `tenure-conformance` has a
/// test for each.
///
/// 1. **Order.** Joining is one atomic step, to the back of the line.
/// 2. **Numbers.** A ticket's number is above every number its key ever had: across an empty line,
///    a restart, clean-up, a break, a lost data set. Where the store has an order of its own that
///    never restarts, that is the number; elsewhere it is `max(last + 1, the store's clock in µs)`.
///    It is at least the ticket's [`floor`](Ticket::floor), and from a renewal on later numbers are above that.
/// 3. **Rule.** Who is served is what [`served`](crate::served) says, and nothing else. A share
///    of another capacity than the line's is refused as [`Invalid`](crate::ErrorKind::Invalid).
/// 4. **Twice is once.** Any verb may be sent again with the same ticket and does nothing more.
///    A renewal never brings back what is gone. ([`add`](Engine::add) is the exception: sent
///    again after an unknown outcome it may skip numbers, and gives none twice.)
/// 5. **Life.** Without a sign of life for its `ttl`, by the store's own clock, a ticket leaves by
///    itself, and never sooner. The clocks of clients decide nothing. An expiry never moves
///    backwards. Joining and renewing are signs of life.
/// 6. **Authority.** Answers come from the store's single truth, never from a stale copy.
/// 7. **Names.** Every [`Key`] is its own lock, and nothing outside Tenure's own names is touched.
/// 8. **Time.** Every verb but [`watch`](Engine::watch), [`events`](Engine::events) and
///    [`close`](Engine::close) has an answer within [`Guarantees::answers_within`], whatever the store does:
///    a silent store is [`Unavailable`](crate::ErrorKind::Unavailable). This is one time for the whole verb,
///    connecting included, however many callers there are.
///
/// An error of the kind [`Unavailable`](crate::ErrorKind::Unavailable) says that the outcome is
/// *unknown*: the verb may have been carried out, or may still be. An error of any other kind says
/// that nothing was changed.
///
/// Dropping a verb's future at any point leaves the outcome unknown, and harms nobody.
///
/// There are no default methods: they hide gaps.
///
/// What the verbs do, on the memory engine:
///
/// ```
/// use tenure::{Key, LeaveOutcome, Share, TicketState, Ticket, engine::{Engine, LeaveMode, Memory, WaitMode, Wake}};
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let (first, second) = (Ticket::new(Key::new("a")?, Share::WHOLE), Ticket::new(Key::new("a")?, Share::WHOLE));
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
    /// What this store promises, and what it cannot.
    fn guarantees(&self) -> Guarantees;

    /// Puts the ticket at the back of its line; a ticket that is there already keeps its place.
    ///
    /// `None`: it could not be served at once and its owner would not wait; nothing was changed.
    fn join(
        &self,
        ticket: &Ticket,
        patience: WaitMode,
    ) -> impl Future<Output = Result<Option<Place>>> + Send;

    /// A sign of life. It also carries the ticket's note, and its share, which can only shrink.
    ///
    /// `None`: the ticket is out of the line, for good. A ticket that was told to leave is answered
    /// with [`Place::leaving`], and nothing about it is changed: its life ends when it would have.
    fn renew(&self, ticket: &Ticket) -> impl Future<Output = Result<Option<Place>>> + Send;

    /// Takes out a ticket: one's own, or a neighbour's. Needs no more than its id and its key.
    fn leave(
        &self,
        ticket: &Ticket,
        how: LeaveMode,
    ) -> impl Future<Output = Result<LeaveOutcome>> + Send;

    /// Returns once the ticket's standing may differ from `seen`: it may be served, told to leave, or out.
    ///
    /// What happened between the ticket's join and this call counts. The answer is a hint: it may
    /// come without cause, and a store that cannot push may leave it to the heartbeat to find out.
    fn watch(
        &self,
        ticket: &Ticket,
        seen: TicketState,
    ) -> impl Future<Output = Result<Wake>> + Send;

    /// What happened to the lines in `scope` after the cursor; waits until something did.
    /// Without a cursor it answers at once, with a cursor and no events.
    fn events(
        &self,
        scope: &Scope,
        after: Option<Cursor>,
    ) -> impl Future<Output = Result<EventBatch>> + Send;

    /// The tickets of a line, from the front, with [`Place::life`] as what remains of it.
    fn line(&self, key: &Key) -> impl Future<Output = Result<Vec<(Ticket, Place)>>> + Send;

    /// The keys that begin with `prefix` and have a ticket, in order.
    fn keys(&self, prefix: &str) -> impl Future<Output = Result<Vec<Key>>> + Send;

    /// Adds to a number that is kept beside the line.
    ///
    /// Without a window it is a sequence: the value after adding, from `by` upwards. As long as the
    /// store keeps its data, no number is given twice. With a window it is a count that starts anew
    /// when the window ends.
    fn add(
        &self,
        key: &Key,
        by: u64,
        window: Option<Window>,
    ) -> impl Future<Output = Result<CounterValue>> + Send;

    /// Returns once nothing that this client began is under way any more, and lets go of what it keeps
    /// alive in the store (a session). Verbs that are called later may be Unavailable.
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// Why [`watch`](Engine::watch) returned.
///
/// ```
/// use tenure::{Key, Share, TicketState, Ticket, engine::{Engine, LeaveMode, Memory, WaitMode, Wake}};
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let (first, second) = (Ticket::new(Key::new("a")?, Share::WHOLE), Ticket::new(Key::new("a")?, Share::WHOLE));
/// engine.join(&first, WaitMode::Wait).await?;
/// let place = engine.join(&second, WaitMode::Wait).await?.expect("it waits");
/// engine.leave(&first, LeaveMode::Now).await?;
/// match engine.watch(&second, place.state).await? {
///     Wake::Served(number) => assert_eq!(number, place.number),
///     Wake::Look => panic!("this engine tells at once who is served"),
/// }
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The ticket's standing may have changed: a renewal tells.
    Look,
    /// The ticket is served, and this is its number. Its life still runs from its last sign of life.
    Served(u64),
}

/// For how long a windowed count runs, and how far.
///
/// ```
/// use std::time::Duration;
///
/// use tenure::{Key, Window, engine::{Engine, Memory}};
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
    /// From the first count to its end, when the count starts anew.
    pub per: Duration,
    /// A count that would go above this is refused, and counts nothing.
    pub limit: Option<u64>,
}

/// What a count came to.
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
pub struct CounterValue {
    /// The value, after adding if that was allowed.
    pub value: u64,
    /// Whether it was added.
    pub allowed: bool,
    /// When the window ends; `None` for a sequence.
    pub resets_in: Option<Duration>,
}
