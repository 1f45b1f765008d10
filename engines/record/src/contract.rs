//! The contract of a store: a record for each line, and an atomic step on it.

use std::time::Duration;

use tenure_core::{CounterValue, Guarantees, Key, NUMBER_MAX, Result, Window, errors};
use tokio::sync::mpsc;

use crate::format::micros;
use crate::notice::{Inbox, RecordNotice};

/// The record of one line. A store keeps each field as a column or all as one value.
///
/// Times are in microseconds since 1970 by the store's clock. The times in `tickets` are relative
/// to `at_us` and the numbers to `last`, so the bytes of a single ticket depend on neither. That
/// lets a store take, renew and release a lone lock in [one trip](LoneStep).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineRecord {
    /// When the record was written.
    pub at_us: u64,
    /// The last number that was given for this key. It never falls.
    pub last: u64,
    /// The number of the exclusive holder, or 0. A transaction of a user can check its token here.
    pub holder: u64,
    /// When the last of the tickets expires, or 0 without tickets.
    pub ends_us: u64,
    /// The serialised tickets. Empty if the line is.
    pub tickets: Vec<u8>,
}

impl LineRecord {
    /// Whether a [sweep](RecordStore::sweep) may delete the record. `floor` is that of
    /// [`FoundRecord::floor`].
    pub fn is_orphan(&self, idle: Duration, now_us: u64, floor: u64) -> bool {
        let is_idle = self.at_us.saturating_add(micros(idle)) <= now_us;
        is_idle && self.ends_us <= now_us && self.last < floor
    }
}

/// A record as a step or a read finds it.
#[derive(Clone, Debug, Default)]
pub struct FoundRecord {
    /// The record, if the store has one for this key.
    pub record: Option<LineRecord>,
    /// The store's clock.
    pub now_us: u64,
    /// The smallest number of a new ticket: the clock, or more if the store adds to it after a
    /// fail-over.
    pub floor: u64,
    /// No further ticket is served before this time. 0, except after the store came back with older
    /// data: a lease that it has forgotten may last for the longest ttl.
    pub serve_from_us: u64,
}

/// The record that a step writes, and the notices that it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// The record in the place of the former one.
    pub record: LineRecord,
    /// Whether the record serves a ticket that the former one did not.
    pub serves: bool,
    /// The first moment of the store's clock at which a step would decide otherwise, because a
    /// ticket expires or further tickets may be served.
    pub until_us: u64,
    /// Notices to other clients. They are hints: a lost one delays, and breaks nothing.
    pub notices: Vec<RecordNotice>,
}

/// Decides a step. `None`: nothing is written. The closure has no effects outside of the crate, so
/// a store whose write failed may call it again with the record as it is then. The last call
/// counts.
pub type Decide<'a> = dyn FnMut(&FoundRecord) -> Option<RecordChange> + Send + 'a;

/// A step of a ticket that is alone in its line. A store can carry it out in one trip: it compares
/// the bytes of the tickets, and decides nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoneStep {
    /// The verb.
    pub verb: LoneVerb,
    /// The tickets of a record with this ticket alone, which holds and has its whole ttl left.
    pub tickets: Vec<u8>,
    /// The ttl of the ticket, in microseconds.
    pub ttl_us: u64,
    /// Whether the ticket is exclusive, so that its number is the record's `holder`.
    pub is_exclusive: bool,
}

/// The verbs of a [`LoneStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoneVerb {
    /// Joins a line without tickets.
    Join,
    /// Renews the only ticket.
    Renew,
    /// Removes the only ticket.
    Leave,
}

impl LoneStep {
    /// The record after the step. The ticket's number is its `last`.
    ///
    /// `None`: the step cannot be carried out alone, because the line has other tickets, the ticket
    /// has expired, or no further ticket may be served yet.
    pub fn record_after(&self, found: &FoundRecord) -> Option<LineRecord> {
        let old = found.record.clone().unwrap_or_default();
        let now_us = found.now_us;
        let is_alone = old.tickets == self.tickets && old.ends_us > now_us;
        let ends_us = now_us.saturating_add(self.ttl_us);
        match self.verb {
            LoneVerb::Join => {
                let number = (old.last + 1).max(found.floor);
                let is_free = old.tickets.is_empty() && found.serve_from_us <= now_us;
                (is_free && number <= NUMBER_MAX).then(|| LineRecord {
                    at_us: now_us,
                    last: number,
                    holder: if self.is_exclusive { number } else { 0 },
                    ends_us,
                    tickets: self.tickets.clone(),
                })
            }
            LoneVerb::Renew => is_alone.then_some(LineRecord { at_us: now_us, ends_us, ..old }),
            LoneVerb::Leave => is_alone.then_some(LineRecord {
                at_us: now_us,
                last: old.last,
                ..LineRecord::default()
            }),
        }
    }
}

/// Returns the result of an addition to a windowed count. `before` is the count before it, and
/// `left_us` the time until its window ends.
///
/// # Errors
///
/// The sum is larger than a number may be.
pub fn counted(
    key: &Key,
    before: u64,
    by: u64,
    window: Window,
    left_us: u64,
) -> Result<CounterValue> {
    let wanted = errors::checked_sum(key, before, by)?;
    let allowed = window.limit.is_none_or(|limit| wanted <= limit);
    let value = if allowed { wanted } else { before };
    Ok(CounterValue::new(value, allowed, Some(Duration::from_micros(left_us))))
}

/// A client of a store with a record, a clock and an atomic step.
///
/// 1. **Step.** A [`step`](Self::step) writes only over the record that it has shown, also if
///    there was no record. Either no other client writes it in the meantime, because the step locks
///    it, or the write compares it and the step decides again. Steps on different keys do not
///    exclude each other.
/// 2. **Clock.** [`FoundRecord::now_us`] is the clock of the store. It is read after the record was
///    locked; or the write locks the record, reads the clock, and is refused from
///    [`RecordChange::until_us`] on. The clocks of clients decide nothing.
/// 3. **Durability.** A change counts when the store has acknowledged it, and then it survives what
///    the [`guarantees`](Self::guarantees) say.
/// 4. **Unknown outcomes.** [`Unavailable`](tenure_core::ErrorKind::Unavailable) means that the
///    change may have happened. Any other error means that it has not. Dropping the future of an
///    operation leaves the outcome unknown, and no transaction open.
/// 5. **Notices** are sent after the change is durable. A lost notice is not an error.
/// 6. **Keys** are text: two different keys have two records.
///
/// The crate has at most as many operations in flight as [`RecordEngine::new`] allows, and one
/// [`listen`](Self::listen) beside them. It drops each that takes longer than
/// [`Guarantees::answers_within`].
///
/// [`RecordEngine::new`]: crate::RecordEngine::new
pub trait RecordStore: Send + Sync + 'static {
    /// The properties of this store. `push` is whether [`listen`](Self::listen) delivers notices.
    fn guarantees(&self) -> Guarantees;

    /// One atomic step on the record of a key: reads it and the clock, calls `decide`, and writes
    /// the record. Sends the notices when the change is durable.
    ///
    /// `lone`: a store that can may first try this step, in one trip, and write
    /// [`LoneStep::record_after`]. If there is such a record, it returns the record's `last`, and
    /// does not call `decide`. Otherwise it returns `None`.
    fn step(
        &self,
        key: &Key,
        lone: Option<&LoneStep>,
        decide: &mut Decide<'_>,
    ) -> impl Future<Output = Result<Option<u64>>> + Send;

    /// Reads the record of a key without a lock, from the store's authoritative state. The clock is
    /// read before the record, or together with it.
    fn read(&self, key: &Key) -> impl Future<Output = Result<FoundRecord>> + Send;

    /// The keys that begin with this text and have a ticket that has not expired
    /// ([`LineRecord::ends_us`]), in any order.
    fn keys(&self, prefix: &str) -> impl Future<Output = Result<Vec<Key>>> + Send;

    /// Listens to the notices for this inbox. Returns once notices are known to arrive: for example
    /// once one has come that the store sent to itself. If the receiver is dropped, the store stops
    /// listening. If the channel ends, notices may have been lost, and the crate listens again. The
    /// channel holds at most [`NOTICES_MAX`](crate::NOTICES_MAX); the store ends it if it is full.
    ///
    /// `None`: this store never delivers notices, and the crate polls.
    fn listen(
        &self,
        inbox: Inbox,
    ) -> impl Future<Output = Result<Option<mpsc::Receiver<RecordNotice>>>> + Send;

    /// Adds to a sequence or a windowed count in one atomic step. See
    /// [`Engine::add`](tenure_core::Engine::add).
    fn add(
        &self,
        key: &Key,
        by: u64,
        window: Option<Window>,
    ) -> impl Future<Output = Result<CounterValue>> + Send;

    /// Replaces the value of a key in one atomic step, if it is `seen`. Returns the value then. See
    /// [`Engine::swap`](tenure_core::Engine::swap).
    fn swap(
        &self,
        key: &Key,
        seen: &str,
        value: &str,
    ) -> impl Future<Output = Result<String>> + Send;

    /// Deletes [orphans](LineRecord::is_orphan): records that were written at least `idle` ago,
    /// whose tickets have all expired, and whose `last` is below the floor, so that later numbers
    /// are larger without them. Deletes windowed counts that are over, and never a sequence
    /// or a value. One
    /// call may delete a part of them.
    fn sweep(&self, idle: Duration) -> impl Future<Output = Result<()>> + Send;

    /// Closes the connections.
    fn close(&self) -> impl Future<Output = ()> + Send;
}
