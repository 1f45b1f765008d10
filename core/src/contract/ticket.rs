//! A ticket is somebody's place in a line: a holder at the front, a waiter behind.

use std::sync::Arc;
use std::time::Duration;

use crate::{Key, Note, Owner, Result, Share, TTL_DEFAULT, TicketId};

/// The most tickets that one line takes.
pub const LINE_TICKETS_MAX: usize = 16_384;
/// The largest number of a ticket: exact in Lua and in JSON, and as microseconds the year 2255.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// What its owner asks for: everything an engine needs to put it into a line, and to find it again.
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
/// use tenure::{Key, Share, TicketState, Ticket, engine::{Engine, Memory, WaitMode}};
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let ticket = Ticket::new(Key::new("invoices/42")?, Share::WHOLE).with_owner("worker-7")?;
/// let place = engine.join(&ticket, WaitMode::Wait).await?.expect("it would have waited");
/// assert_eq!(place.state, TicketState::Holding);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Made by the owner, fresh for every attempt.
    pub id: TicketId,
    /// The line it stands in.
    pub key: Key,
    /// How much it takes of what there is. A renewal may shrink it, never grow it.
    pub share: Share,
    /// How long it lives without a sign of life, where the engine keeps leases.
    pub ttl: Duration,
    /// Who holds or waits, for the eyes of an operator.
    pub owner: Owner,
    /// What the owner wants others to know. A renewal may change it.
    pub note: Note,
    /// A number that this ticket's own must not be below, and that later ones must be above.
    /// Zero, but where several stores have to agree on one number.
    pub floor: u64,
}

impl Ticket {
    /// A ticket with a fresh id, of this process, for the default ttl, without a note.
    pub fn new(key: Key, share: Share) -> Self {
        let (id, ttl, owner) = (TicketId::fresh(), TTL_DEFAULT, Owner::this_process());
        Self { id, key, share, ttl, owner, note: Note::default(), floor: 0 }
    }

    /// The same with this owner, unless the name is too long.
    pub fn with_owner(self, owner: impl Into<Arc<str>>) -> Result<Self> {
        Ok(Self { owner: Owner::new(owner)?, ..self })
    }

    /// The same with this note, unless it is too long.
    pub fn with_note(self, note: impl Into<Arc<str>>) -> Result<Self> {
        Ok(Self { note: Note::new(note)?, ..self })
    }
}

/// Whether a ticket is served yet.
///
/// ```
/// use tenure::TicketState;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let _first = locks.rwlock("config").read().await?;
/// let _second = locks.rwlock("config").read().await?;
/// let line = locks.line("config").await?;
/// assert!(line.iter().all(|(_, place)| place.state == TicketState::Holding), "readers hold together");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum TicketState {
    /// The ticket is not served yet.
    Waiting,
    /// The ticket is served, and stays so until it leaves.
    Holding,
}

/// Where a ticket stands in its line.
///
/// ```
/// use tenure::TicketState;
///
/// # tenure::blocking::block_on(async {
/// let locks = tenure::connect("memory:").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let (_ticket, place) = locks.line("invoices/42").await?.remove(0);
/// assert_eq!((place.number, place.state), (guard.token(), TicketState::Holding));
/// assert_eq!(place.ahead, 0);
/// assert!(place.life.is_some(), "here it lives on for a while without a sign of life");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Above every number that the key ever had: the fencing token, once the ticket is served.
    pub number: u64,
    /// Whether it is served.
    pub state: TicketState,
    /// How much the tickets ahead of it take. Where a store would have to read a long line for it, a renewal far back
    /// answers what was counted last, which is no less: the engine's page says from where on.
    pub ahead: u64,
    /// How long it lives on from this answer without another sign of life. `None`: for as long as
    /// its process lives, which the store learns by itself.
    pub life: Option<Duration>,
    /// When a waiting ticket should look again even if nobody rings: a ticket ahead ends then.
    pub look: Option<Duration>,
    /// It was told to leave: it is never renewed again, and is out when its owner leaves or its life ends.
    pub leaving: bool,
}

impl Place {
    /// What a user calls it: `holding`, `waiting`, or `leaving` for a ticket that was told to leave.
    pub fn label(&self) -> &'static str {
        match self.state {
            _ if self.leaving => "leaving",
            TicketState::Holding => "holding",
            TicketState::Waiting => "waiting",
        }
    }
}

/// What to do if a ticket cannot be served at once.
///
/// ```
/// use tenure::{Key, Share, Ticket, engine::{Engine, Memory, WaitMode}};
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let (first, second) = (Ticket::new(Key::new("a")?, Share::WHOLE), Ticket::new(Key::new("a")?, Share::WHOLE));
/// assert!(engine.join(&first, WaitMode::NoWait).await?.is_some());
/// assert!(engine.join(&second, WaitMode::NoWait).await?.is_none(), "busy, and it never stood in line");
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitMode {
    /// Stand in line.
    Wait,
    /// Go away: the ticket never enters the line.
    NoWait,
}

/// How a ticket is taken out of its line.
///
/// ```
/// use tenure::{Key, LeaveOutcome, Share, Ticket, engine::{Engine, LeaveMode, Memory, WaitMode}};
///
/// # tenure::blocking::block_on(async {
/// let engine = Memory::new();
/// let holder = Ticket::new(Key::new("a")?, Share::WHOLE);
/// engine.join(&holder, WaitMode::Wait).await?;
/// assert_eq!(engine.leave(&holder, LeaveMode::Graceful).await?, LeaveOutcome::Requested, "it keeps its place until it stops");
/// assert_eq!(engine.leave(&holder, LeaveMode::Now).await?, LeaveOutcome::Holding);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaveMode {
    /// At once: by its owner, or by an operator who knows that the owner cannot.
    Now,
    /// As soon as is safe. A waiting ticket is out at once. A served one is never renewed again:
    /// its owner is told, stops its work and leaves; at the latest its life ends. Until then it
    /// keeps its place, so that a break never makes two holders.
    Graceful,
}

/// What [`leave`](crate::Engine::leave) found.
///
/// ```
/// use tenure::{Key, LeaveOutcome, Share, Ticket};
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
    /// It was served, and is out.
    Holding,
    /// It was waiting, and is out.
    Waiting,
    /// It is served, was told to leave, and has not left yet.
    Requested,
    /// It is not in the line.
    Absent,
    /// It is not in the line; an earlier attempt, whose answer was lost, may have taken it out.
    Unsure,
}
