//! A ticket is an entry of a line: holders at the front, waiters behind them.

use std::sync::Arc;
use std::time::Duration;

use crate::{Key, Note, Owner, Result, Share, TicketId};

/// The default ttl of a lease.
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);
/// The maximum ttl of a lease.
pub const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Maximum tickets in one line.
pub const LINE_TICKETS_MAX: usize = 16_384;
/// The largest number of a ticket. It is exact in Lua and JSON, and as microseconds it is the year
/// 2255.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A request for a lock: all that an engine needs to put it into a line and to find it again.
///
/// ```text
///  front                                  back
///  ┌─────┐ ┌─────┐ ┊ ┌─────┐ ┌─────┐
///  │ #41 │ │ #42 │ ┊ │ #45 │ │ #46 │  ◀── join
///  │ 1/3 │ │ 2/3 │ ┊ │ 1/3 │ │ 3/3 │
///  └─────┘ └─────┘ ┊ └─────┘ └─────┘
///      holding     ┊     waiting
/// ```
/// ```
/// use tenure::engine::{Engine, Memory, WaitMode};
/// use tenure::inspect::{Share, Ticket, TicketState};
/// use tenure::Key;
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let ticket = Ticket::new(Key::new("invoices/42")?, Share::WHOLE).with_owner("worker-7")?;
/// let place = engine.join(&ticket, WaitMode::Wait).await?.expect("it waits");
/// assert_eq!(place.state, TicketState::Holding);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The id, made by the owner for each ticket.
    pub id: TicketId,
    /// The key of its line.
    pub key: Key,
    /// The share of the line that it takes. A renewal may shrink it, never grow it.
    pub share: Share,
    /// The ttl of the lease. It has no effect where the kernel knows that the holder lives.
    pub ttl: Duration,
    /// The owner's name, for operators.
    pub owner: Owner,
    /// The owner's note, for others. A renewal may change it.
    pub note: Note,
    /// A lower bound of this ticket's number, which later numbers must exceed. Zero, except where
    /// several stores agree on one number.
    pub floor: u64,
}

impl Ticket {
    /// A ticket of this process, with a new id, the default ttl and no note.
    pub fn new(key: Key, share: Share) -> Self {
        let (id, ttl, owner) = (TicketId::fresh(), TTL_DEFAULT, Owner::this_process());
        Self { id, key, share, ttl, owner, note: Note::default(), floor: 0 }
    }

    /// Sets the owner's name.
    ///
    /// # Errors
    ///
    /// The name is longer than [`OWNER_BYTES_MAX`](crate::OWNER_BYTES_MAX).
    pub fn with_owner(self, owner: impl Into<Arc<str>>) -> Result<Self> {
        Ok(Self { owner: Owner::new(owner)?, ..self })
    }

    /// Sets the note.
    ///
    /// # Errors
    ///
    /// The note is longer than [`NOTE_BYTES_MAX`](crate::NOTE_BYTES_MAX).
    pub fn with_note(self, note: impl Into<Arc<str>>) -> Result<Self> {
        Ok(Self { note: Note::new(note)?, ..self })
    }
}

/// Whether a ticket holds or waits.
///
/// ```
/// use tenure::inspect::TicketState;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let _first = locks.rwlock("config").read().await?;
/// let _second = locks.rwlock("config").read().await?;
/// let line = locks.line("config").await?;
/// assert!(line.iter().all(|entry| entry.state == TicketState::Holding), "readers hold together");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum TicketState {
    /// The ticket is not served yet.
    Waiting,
    /// The ticket is served until it leaves.
    Holding,
}

/// The place of a ticket in its line.
///
/// ```
/// use tenure::engine::{Engine, Memory, WaitMode};
/// use tenure::inspect::{Share, Ticket, TicketState};
/// use tenure::Key;
///
/// # tenure::blocking::block_on(async {
/// let (engine, ticket) = (Memory::new(), Ticket::new(Key::new("a")?, Share::WHOLE));
/// let place = engine.join(&ticket, WaitMode::Wait).await?.expect("it waits");
/// assert_eq!((place.state, place.ahead), (TicketState::Holding, 0));
/// assert!(place.life.is_some(), "it expires without a renewal");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The ticket's number, above every earlier number of the key. For an exclusive holder it is
    /// the fencing token.
    pub number: u64,
    /// Whether the ticket holds or waits.
    pub state: TicketState,
    /// The sum of the shares of the tickets ahead. An engine that would have to read a long line
    /// for it may answer an earlier, larger sum, or the sum of the part that it has read. Its page
    /// says from which place on.
    pub ahead: u64,
    /// The time until the ticket expires without another renewal. `None`: it lives as long as its
    /// process, and the store notices the end by itself.
    pub life: Option<Duration>,
    /// The time after which a waiting ticket should renew even without a wake-up: a ticket ahead
    /// expires then.
    pub look: Option<Duration>,
    /// The ticket was asked to leave. It is not renewed again. It is gone when its owner releases
    /// it or its lease expires.
    pub leaving: bool,
}

/// Whether a ticket that cannot be served at once waits.
///
/// ```
/// use tenure::engine::{Engine, Memory, WaitMode};
/// use tenure::inspect::{Share, Ticket};
/// use tenure::Key;
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let keys = [Key::new("a")?, Key::new("a")?];
/// let [first, second] = keys.map(|key| Ticket::new(key, Share::WHOLE));
/// assert!(engine.join(&first, WaitMode::NoWait).await?.is_some());
/// // Busy: it never entered the line.
/// assert!(engine.join(&second, WaitMode::NoWait).await?.is_none());
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitMode {
    /// Wait in the line.
    Wait,
    /// Do not wait: the ticket never enters the line.
    NoWait,
}

/// How to remove a ticket from its line.
///
/// ```
/// use tenure::engine::{Engine, LeaveMode, Memory, WaitMode};
/// use tenure::inspect::{LeaveOutcome, Share, Ticket};
/// use tenure::Key;
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let holder = Ticket::new(Key::new("a")?, Share::WHOLE);
/// engine.join(&holder, WaitMode::Wait).await?;
/// // It keeps its place until it stops.
/// assert_eq!(engine.leave(&holder, LeaveMode::Graceful).await?, LeaveOutcome::Requested);
/// assert_eq!(engine.leave(&holder, LeaveMode::Now).await?, LeaveOutcome::Holding);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaveMode {
    /// At once: by its owner, or by an operator who knows that the owner cannot release it.
    Now,
    /// As soon as is safe. A waiting ticket is removed at once. A holder is asked to leave: it is
    /// not renewed again, and keeps its place until its owner has stopped, at the latest until it
    /// expires. A break therefore never makes two holders.
    Graceful,
}

/// The result of [`leave`](crate::Engine::leave).
///
/// ```
/// use tenure::inspect::{LeaveOutcome, Share, Ticket};
/// use tenure::Key;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// assert_eq!(locks.break_ticket("invoices/42", guard.id()).await?, LeaveOutcome::Requested);
/// let id = guard.id();
/// drop(guard);
/// assert_eq!(locks.break_ticket("invoices/42", id).await?, LeaveOutcome::Absent);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum LeaveOutcome {
    /// The ticket held, and is removed.
    Holding,
    /// The ticket waited, and is removed.
    Waiting,
    /// The ticket holds. It was asked to leave, and has not left yet.
    Requested,
    /// The ticket is not in the line.
    Absent,
    /// The ticket is not in the line. An earlier attempt without an answer may have removed it.
    Unsure,
}
