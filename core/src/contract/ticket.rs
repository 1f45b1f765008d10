//! A ticket is somebody's place in a line: a holder at the front, a waiter behind.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Key, Result};

/// The largest capacity that a line can be kept for.
pub const SHARE_OF_MAX: u32 = 1 << 30;
/// The longest note, in bytes of UTF-8.
pub const NOTE_BYTES_MAX: usize = 4096;
/// The longest name of an owner, in bytes of UTF-8.
pub const OWNER_BYTES_MAX: usize = 256;
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
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::{Engine, Key, Memory, Patience, Share, Standing, Ticket, TicketId};
///
/// # tenure_core::blocking::block_on(async {
/// let engine = Memory::new();
/// let ticket = Ticket {
///     id: TicketId::fresh(),
///     key: Key::new("invoices/42")?,
///     share: Share::WHOLE,
///     ttl: Duration::from_secs(30),
///     owner: "worker-7".into(),
///     note: "".into(),
///     floor: 0,
/// };
/// let place = engine.join(&ticket, Patience::Wait).await?.expect("it would have waited");
/// assert_eq!(place.standing, Standing::Holding);
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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
    pub owner: Arc<str>,
    /// What the owner wants others to know. A renewal may change it.
    pub note: Arc<str>,
    /// A number that this ticket's own must not be below, and that later ones must be above.
    /// Zero, but where several stores have to agree on one number.
    pub floor: u64,
}

/// How many of an id's bits tell apart the attempts of one ticket, and above which bit they are.
const ATTEMPT_BITS: u32 = 20;
const ATTEMPT_SHIFT: u32 = 44;
const ATTEMPT_MASK: u128 = ((1 << ATTEMPT_BITS) - 1) << ATTEMPT_SHIFT;

/// 128 bits that no other ticket has.
///
/// ```
/// use tenure_core::{Locks, Memory, TicketId};
///
/// # tenure_core::blocking::block_on(async {
/// let locks = Locks::new(Memory::new());
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let shown = guard.id().to_string();
/// assert_eq!(shown.len(), 32);
/// assert_eq!(shown.parse::<TicketId>()?, guard.id());
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TicketId(u128);

impl TicketId {
    /// An id that nobody else has: random bits that the operating system gives for this id alone. A count
    /// or a generator kept in this process would give the same ids in every copy of it (a `fork`, a
    /// restored image), and "twice is once" would let all copies hold.
    pub fn fresh() -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system has no random numbers to give");
        Self(u128::from_ne_bytes(random)).whole()
    }

    /// The id of one attempt of this ticket, for an engine that asks a store for the same ticket more
    /// than once and must not take one attempt's end for another's. A million attempts differ.
    #[must_use]
    pub fn attempt(self, count: u32) -> Self {
        Self(self.whole().0 | (u128::from(count) << ATTEMPT_SHIFT) & ATTEMPT_MASK)
    }

    /// The id of the ticket that this is an attempt of; its own if it is none.
    #[must_use]
    pub fn whole(self) -> Self {
        Self(self.0 & !ATTEMPT_MASK)
    }

    /// The id as a number.
    pub fn to_u128(self) -> u128 {
        self.0
    }

    /// The id that was this number.
    pub fn from_u128(id: u128) -> Self {
        Self(id)
    }
}

impl fmt::Display for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for TicketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for TicketId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(id) if digits => Ok(Self(id)),
            _ => Err(Error::invalid(format!(
                "`{text}` is not a ticket's id: it is 32 hexadecimal digits, as `line` shows them"
            ))),
        }
    }
}

/// `take` out of `of`: all of many is a mutex or a writer, 1 of many a reader, k of n permits.
///
/// ```
/// use tenure_core::{Share, served};
///
/// let two_of_five = Share::new(2, 5)?;
/// assert!(served(3, two_of_five), "it fits behind three that are taken");
/// assert!(!served(4, two_of_five));
/// assert_eq!(Share::new(6, 5).unwrap_err().to_string(), "6 of 5 cannot be taken: ask for 1 to 5");
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Share {
    take: u32,
    of: u32,
}

impl Share {
    /// All of many: a mutex, which is the writer of its key.
    pub const WHOLE: Self = Self { take: SHARE_OF_MAX, of: SHARE_OF_MAX };
    /// One of many: a reader.
    pub const READER: Self = Self { take: 1, of: SHARE_OF_MAX };

    /// `take` out of `of`, which must hold it.
    pub fn new(take: u32, of: u32) -> Result<Self> {
        if of == 0 || of > SHARE_OF_MAX {
            return Err(Error::invalid(format!(
                "a capacity of {of} cannot be kept: it must be 1 to {SHARE_OF_MAX}"
            )));
        }
        if take == 0 || take > of {
            return Err(Error::invalid(format!(
                "{take} of {of} cannot be taken: ask for 1 to {of}"
            )));
        }
        Ok(Self { take, of })
    }

    /// How much is taken.
    pub fn take(self) -> u32 {
        self.take
    }

    /// How much there is.
    pub fn of(self) -> u32 {
        self.of
    }
}

/// The rule, the only one: a ticket is served as long as it fits behind what is taken ahead of it.
///
/// Tickets arrive at the back and leave from anywhere, so what is taken ahead only falls. Once
/// served, a ticket is served until it leaves; and what is served always fits.
pub fn served(taken_ahead: u64, share: Share) -> bool {
    taken_ahead + u64::from(share.take) <= u64::from(share.of)
}

/// Whether a ticket is served yet.
///
/// ```
/// use tenure_core::{Locks, Memory, Standing};
///
/// # tenure_core::blocking::block_on(async {
/// let locks = Locks::new(Memory::new());
/// let _first = locks.rwlock("config").read().await?;
/// let _second = locks.rwlock("config").read().await?;
/// let line = locks.line("config").await?;
/// assert!(line.iter().all(|(_, place)| place.standing == Standing::Holding), "readers hold together");
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Standing {
    /// The ticket is not served yet.
    Waiting,
    /// The ticket is served, and stays so until it leaves.
    Holding,
}

/// Where a ticket stands in its line.
///
/// ```
/// use tenure_core::{Locks, Memory, Standing};
///
/// # tenure_core::blocking::block_on(async {
/// let locks = Locks::new(Memory::new());
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let (_ticket, place) = locks.line("invoices/42").await?.remove(0);
/// assert_eq!((place.number, place.standing), (guard.token(), Standing::Holding));
/// assert_eq!(place.ahead, 0);
/// assert!(place.life.is_some(), "here it lives on for a while without a sign of life");
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Place {
    /// Above every number that the key ever had: the fencing token, once the ticket is served.
    pub number: u64,
    /// Whether it is served.
    pub standing: Standing,
    /// How much the tickets ahead of it take.
    pub ahead: u64,
    /// How long it lives on from this answer without another sign of life. `None`: for as long as
    /// its process lives, which the store learns by itself.
    pub life: Option<Duration>,
    /// When a waiting ticket should look again even if nobody rings: a ticket ahead ends then.
    pub look: Option<Duration>,
    /// It was told to leave: it is never renewed again, and is out when its owner leaves or its life ends.
    pub leaving: bool,
}

/// What to do if a ticket cannot be served at once.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::{Engine, Key, Memory, Patience, Ticket};
///
/// # use tenure_core::{Share, TicketId};
/// # fn ticket(key: &str, share: Share) -> tenure_core::Result<Ticket> {
/// #     let (id, key, ttl) = (TicketId::fresh(), Key::new(key)?, Duration::from_secs(30));
/// #     Ok(Ticket { id, key, share, ttl, owner: "me".into(), note: "".into(), floor: 0 })
/// # }
/// # tenure_core::blocking::block_on(async {
/// let engine = Memory::new();
/// let (first, second) = (ticket("a", Share::WHOLE)?, ticket("a", Share::WHOLE)?);
/// assert!(engine.join(&first, Patience::NoWait).await?.is_some());
/// assert!(engine.join(&second, Patience::NoWait).await?.is_none(), "busy, and it never stood in line");
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Patience {
    /// Stand in line.
    Wait,
    /// Go away: the ticket never enters the line.
    NoWait,
}

/// How a ticket is taken out of its line.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::{Engine, Key, Leave, Left, Memory, Patience, Ticket};
///
/// # use tenure_core::{Share, TicketId};
/// # fn ticket(key: &str, share: Share) -> tenure_core::Result<Ticket> {
/// #     let (id, key, ttl) = (TicketId::fresh(), Key::new(key)?, Duration::from_secs(30));
/// #     Ok(Ticket { id, key, share, ttl, owner: "me".into(), note: "".into(), floor: 0 })
/// # }
/// # tenure_core::blocking::block_on(async {
/// let engine = Memory::new();
/// let holder = ticket("a", Share::WHOLE)?;
/// engine.join(&holder, Patience::Wait).await?;
/// assert_eq!(engine.leave(&holder, Leave::Soon).await?, Left::Told, "it keeps its place until it stops");
/// assert_eq!(engine.leave(&holder, Leave::Now).await?, Left::Holding);
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Leave {
    /// At once: by its owner, or by an operator who knows that the owner cannot.
    Now,
    /// As soon as is safe. A waiting ticket is out at once. A served one is never renewed again:
    /// its owner is told, stops its work and leaves; at the latest its life ends. Until then it
    /// keeps its place, so that a break never makes two holders.
    Soon,
}

/// What [`leave`](crate::Engine::leave) found.
///
/// ```
/// use tenure_core::{Left, Locks, Memory};
///
/// # tenure_core::blocking::block_on(async {
/// let locks = Locks::new(Memory::new());
/// let guard = locks.mutex("invoices/42").lock().await?;
/// assert_eq!(locks.break_ticket("invoices/42", guard.id()).await?, Left::Told);
/// let id = guard.id();
/// drop(guard);
/// assert_eq!(locks.break_ticket("invoices/42", id).await?, Left::Absent);
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Left {
    /// It was served, and is out.
    Holding,
    /// It was waiting, and is out.
    Waiting,
    /// It is served, was told to leave, and has not left yet.
    Told,
    /// It is not in the line.
    Absent,
    /// It is not in the line; an earlier attempt, whose answer was lost, may have taken it out.
    Unsure,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_back_as_it_was_written() {
        let id = TicketId::fresh();
        assert_eq!(id.to_string().parse::<TicketId>().unwrap(), id);
        for garbage in ["", "12", "+0000000000000000000000000000001", "zz", &"0".repeat(33)] {
            assert!(garbage.parse::<TicketId>().is_err(), "{garbage}");
        }
    }

    #[test]
    fn attempts_differ_and_are_of_one_ticket() {
        let (id, other) = (TicketId::fresh(), TicketId::fresh());
        assert_eq!(id.whole(), id);
        assert_ne!(id.attempt(1), id.attempt(2));
        assert_eq!(id.attempt(1_048_575).whole(), id);
        assert_eq!(id.attempt(7).attempt(8), id.attempt(8));
        assert_ne!(id.attempt(1), other.attempt(1));
    }

    #[test]
    fn a_share_that_cannot_be_is_refused() {
        for (take, of) in [(0, 0), (6, 5), (0, 5), (1, SHARE_OF_MAX + 1)] {
            assert!(Share::new(take, of).is_err(), "{take} of {of}");
        }
        assert_eq!(
            Share::new(6, 5).unwrap_err().to_string(),
            "6 of 5 cannot be taken: ask for 1 to 5"
        );
    }

    #[test]
    fn a_ticket_is_served_exactly_while_it_fits() {
        let two_of_three = Share::new(2, 3).unwrap();
        assert!(served(0, two_of_three));
        assert!(served(1, two_of_three));
        assert!(!served(2, two_of_three));
        assert!(!served(u64::from(u32::MAX), two_of_three));
    }
}
