//! What a store promises, in words a program can compare.

use std::fmt;
use std::time::Duration;

use crate::{Error, Result};

/// What an engine promises on the store that it is connected to.
///
/// An engine starts from [`Guarantees::new`], which promises nothing, and says what it adds.
///
/// ```
/// use tenure::{Locks, Guarantee, engine::Memory};
///
/// let locks = Locks::new(Memory::new());
/// let profile = locks.guarantees();
/// assert_eq!(profile.name, "memory");
/// assert!(profile.meets(Guarantee::Fair));
/// for warning in &profile.warnings {
///     println!("{warning}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Guarantees {
    /// The engine's name, which is its URL's scheme.
    pub name: &'static str,
    /// What a sentence calls this store, as its subject and without a password: `etcd at 10.0.0.1:2379`.
    pub store: String,
    /// What counts as a sign of life.
    pub liveness: Liveness,
    /// Whether tickets are served in the order in which they joined.
    pub fair: bool,
    /// Whether the store rings when a ticket is served; otherwise waiters look for themselves.
    pub push: bool,
    /// Whether onlookers are shown every event, or what lasts long enough to be seen.
    pub events: EventDelivery,
    /// How well the numbers are kept.
    pub fencing: TokenDurability,
    /// What the promises outlive.
    pub survives: FaultTolerance,
    /// What its operator should know about how it is set up, a sentence each.
    pub warnings: Vec<String>,
    /// How much of a ttl the store's own rounding may eat.
    pub rounding: Duration,
    /// The longest that any verb but `watch`, `events` and `close` takes, whatever the store does: a silent store is
    /// [`Unavailable`](crate::ErrorKind::Unavailable) then.
    pub answers_within: Duration,
    /// Its verbs are quick calls that never wait for a network: they are made in place, without a
    /// thread of their own.
    pub quick: bool,
}

/// What counts as a sign of life.
///
/// ```
/// use tenure::{Liveness, Locks, engine::Memory};
///
/// let locks = Locks::new(Memory::new());
/// let sentence = match locks.guarantees().liveness {
///     Liveness::Kernel => "a holder that dies is out at once",
///     Liveness::Lease | Liveness::Session => "a holder that dies is out when its ttl is over",
///     _ => "holders die together with the store",
/// };
/// println!("{sentence}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Liveness {
    /// Tickets live in this process, and end with it or with their ttl.
    Process,
    /// The kernel knows that the process lives. There is no ttl.
    Kernel,
    /// Each ticket is renewed before its ttl is over.
    Lease,
    /// One session keeps all tickets of a client alive.
    Session,
}

/// How well the numbers are kept.
///
/// ```
/// use tenure::{TokenDurability, Locks, Guarantee, engine::Memory};
///
/// let locks = Locks::new(Memory::new());
/// assert_eq!(locks.guarantees().fencing, TokenDurability::Volatile);
/// let refused = locks.require(&[Guarantee::Fencing(TokenDurability::Durable)]).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "memory does not promise numbers that grow whatever happens to it: take a store that does, or do without"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TokenDurability {
    /// There are none to rely on.
    None,
    /// They grow as long as the store keeps its data, or its clock is right. A store that comes back with
    /// older data and a clock that is behind by a second may give the numbers of the last second again.
    Volatile,
    /// They grow whatever happens to the store.
    Durable,
}

/// Whether onlookers are shown everything.
///
/// ```
/// use tenure::{Locks, EventDelivery, engine::Memory};
///
/// let locks = Locks::new(Memory::new());
/// assert_eq!(locks.guarantees().events, EventDelivery::Every, "no term of a leader is missed, however short");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum EventDelivery {
    /// Every event, in order.
    Every,
    /// What lasts from one look to the next.
    Sampled,
}

/// The troubles in which the locks of a store go on.
///
/// Two holders are excluded in each of these troubles only where the field is `true`, but for the two
/// troubles of a holder: there never are two, and the field says whether others go on.
///
/// ```
/// use tenure::{Locks, engine::Memory};
///
/// let survives = Locks::new(Memory::new()).guarantees().survives;
/// assert!(survives.holder_pause, "a paused holder does not keep others waiting for ever");
/// assert!(!survives.store_crash, "memory is gone with its process");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "a list of yes and no is what it is")]
pub struct FaultTolerance {
    /// The holder's process dies: its lock is freed, and the next waiter is served.
    pub holder_crash: bool,
    /// The holder's process is paused for longer than its ttl: its lock is freed, and the next
    /// waiter is served. When the holder runs again, the first thing it learns is that it lost the
    /// lock. `false`: the paused holder keeps its lock, and others wait until it runs again or dies.
    pub holder_pause: bool,
    /// The store's process dies and comes back: every lock is held by whom it was held before.
    pub store_crash: bool,
    /// Another server takes the store's place: every lock is held by whom it was held before.
    pub failover: bool,
    /// The store's clock is set: no lock ends sooner or later than its ttl says.
    pub clock_step: bool,
    /// The store's memory is full: it refuses new tickets, and forgets no old ones.
    pub full_memory: bool,
}

/// Something that a program cannot do without.
///
/// ```
/// use tenure::{ErrorKind, Locks, Guarantee, engine::Memory};
///
/// let locks = Locks::new(Memory::new());
/// locks.require(&[Guarantee::Fair, Guarantee::Push])?;
/// let refused = locks.require(&[Guarantee::Fair, Guarantee::StoreCrash]).unwrap_err();
/// assert_eq!(refused.kind(), ErrorKind::Unsupported);
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Guarantee {
    /// First come, first served.
    Fair,
    /// Waiters are rung for.
    Push,
    /// Numbers that are kept at least so well.
    Fencing(TokenDurability),
    /// Onlookers see every event.
    EveryEvent,
    /// [`FaultTolerance::holder_crash`]: a lock is freed when its holder dies.
    HolderCrash,
    /// [`FaultTolerance::holder_pause`]: a lock is freed when its holder is paused for longer than its ttl.
    HolderPause,
    /// [`FaultTolerance::store_crash`]: locks are kept when the store's process dies and comes back.
    StoreCrash,
    /// [`FaultTolerance::failover`]: locks are kept when another server takes the store's place.
    Failover,
    /// [`FaultTolerance::clock_step`]: a ttl is kept when the store's clock is set.
    ClockStep,
    /// [`FaultTolerance::full_memory`]: locks are kept when the store's memory is full.
    FullMemory,
}

impl Guarantees {
    /// The profile of an engine that promises no more than safety: no order, no push, no numbers to
    /// rely on, and nothing that it survives. Its verbs may take ten seconds.
    pub fn new(name: &'static str, liveness: Liveness) -> Self {
        Self {
            name,
            store: format!("the store ({name})"),
            liveness,
            fair: false,
            push: false,
            events: EventDelivery::Sampled,
            fencing: TokenDurability::None,
            survives: FaultTolerance::default(),
            warnings: Vec::new(),
            rounding: Duration::ZERO,
            answers_within: Duration::from_secs(10),
            quick: false,
        }
    }

    /// Refuses the first need that this store does not meet.
    pub fn require(&self, needs: &[Guarantee]) -> Result<()> {
        match needs.iter().find(|need| !self.meets(**need)) {
            None => Ok(()),
            Some(need) => Err(Error::unsupported(format!(
                "{} does not promise {need}: take a store that does, or do without",
                self.name
            ))),
        }
    }

    /// Whether this store meets a need.
    pub fn meets(&self, need: Guarantee) -> bool {
        match need {
            Guarantee::Fair => self.fair,
            Guarantee::Push => self.push,
            Guarantee::Fencing(fencing) => self.fencing >= fencing,
            Guarantee::EveryEvent => self.events == EventDelivery::Every,
            Guarantee::HolderCrash => self.survives.holder_crash,
            Guarantee::HolderPause => self.survives.holder_pause,
            Guarantee::StoreCrash => self.survives.store_crash,
            Guarantee::Failover => self.survives.failover,
            Guarantee::ClockStep => self.survives.clock_step,
            Guarantee::FullMemory => self.survives.full_memory,
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fair => "that who comes first is served first",
            Self::Push => "that waiters are woken without looking",
            Self::Fencing(TokenDurability::None) => "anything about its numbers",
            Self::Fencing(TokenDurability::Volatile) => "numbers that grow",
            Self::Fencing(TokenDurability::Durable) => "numbers that grow whatever happens to it",
            Self::EveryEvent => "that onlookers see every event",
            Self::HolderCrash => "to free a lock whose holder died",
            Self::HolderPause => "to free a lock whose holder is paused for longer than its ttl",
            Self::StoreCrash => "to keep its locks when it crashes",
            Self::Failover => "to keep its locks when another server takes over",
            Self::ClockStep => "to keep a lock for its ttl when its clock is set",
            Self::FullMemory => "to keep its locks when its memory is full",
        })
    }
}
