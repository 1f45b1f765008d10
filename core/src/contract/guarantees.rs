//! The properties of a store, for programs to compare.

use std::fmt;
use std::time::Duration;

use crate::{Error, Result};

/// The guarantees of an engine on the store that it is connected to.
///
/// An engine starts from [`Guarantees::new`], which has none but safety, and adds its own.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::guarantees::Guarantee;
/// use tenure::Locks;
///
/// let locks = Locks::new(Memory::new());
/// let guarantees = locks.guarantees();
/// assert_eq!(guarantees.name, "memory");
/// assert!(guarantees.meets(Guarantee::Fair));
/// for warning in &guarantees.warnings {
///     println!("{warning}");
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Guarantees {
    /// The engine's name, which is its URL's scheme.
    pub name: &'static str,
    /// The store's name in messages, without a password: `etcd at 10.0.0.1:2379`.
    pub store: String,
    /// How the store knows that a holder lives.
    pub liveness: Liveness,
    /// Whether tickets are served in the order of their joins.
    pub fair: bool,
    /// Whether the store notifies a waiter when it is served. Otherwise waiters poll.
    pub push: bool,
    /// Whether watchers get every event.
    pub events: EventDelivery,
    /// When fencing tokens may repeat.
    pub fencing: TokenDurability,
    /// The faults in which the locks stay correct.
    pub survives: FaultTolerance,
    /// Warnings about the store's configuration for its operator, one sentence each.
    pub warnings: Vec<String>,
    /// The maximum by which the store shortens a ttl through rounding.
    pub rounding: Duration,
    /// Maximum time of any operation but `watch`, `events` and `close`. A silent store is
    /// [`Unavailable`](crate::ErrorKind::Unavailable) then.
    pub answers_within: Duration,
    /// Its operations never wait for a network, so they run on the caller's thread.
    pub quick: bool,
}

/// How a store knows that a holder lives.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::guarantees::Liveness;
/// use tenure::Locks;
///
/// let locks = Locks::new(Memory::new());
/// let sentence = match locks.guarantees().liveness {
///     Liveness::Kernel => "a dead holder's lock is free at once",
///     Liveness::Lease | Liveness::Session => "a dead holder's lock is free when its ttl is over",
///     _ => "holders die together with the store",
/// };
/// println!("{sentence}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Liveness {
    /// Tickets live in this process. They end with it, or when their ttl is over.
    Process,
    /// The kernel knows that the process lives. There is no ttl.
    Kernel,
    /// Each ticket is renewed before its ttl is over.
    Lease,
    /// One session per client keeps all its tickets alive.
    Session,
}

/// When fencing tokens may repeat.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::guarantees::{Guarantee, TokenDurability};
/// use tenure::Locks;
///
/// let locks = Locks::new(Memory::new());
/// assert_eq!(locks.guarantees().fencing, TokenDurability::Volatile);
/// let refused = locks.require(&[Guarantee::Fencing(TokenDurability::Durable)]).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "memory does not promise tokens that grow in every failure: use a store that does, or do \
///      without"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum TokenDurability {
    /// Tokens may repeat at any time.
    None,
    /// Tokens grow while the store keeps its data or its clock is right. A store that comes back
    /// with older data and a clock that is one second behind may give the tokens of the last second
    /// again.
    Volatile,
    /// Tokens grow in every failure of the store.
    Durable,
}

/// Whether watchers get every event.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::guarantees::EventDelivery;
/// use tenure::Locks;
///
/// let locks = Locks::new(Memory::new());
/// // Watchers miss no term of a leader.
/// assert_eq!(locks.guarantees().events, EventDelivery::Every);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum EventDelivery {
    /// Every event, in order.
    Every,
    /// Changes between two snapshots: a state that lasts for a shorter time may be missed.
    Sampled,
}

/// The faults in which the locks of a store stay correct.
///
/// For a fault of the store, `true` means that it never causes two holders. A fault of a holder
/// never causes two holders: `true` means that other clients go on.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::Locks;
///
/// let survives = Locks::new(Memory::new()).guarantees().survives;
/// assert!(survives.holder_pause, "a paused holder does not block others forever");
/// assert!(!survives.store_crash, "memory is lost with its process");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
#[allow(clippy::struct_excessive_bools, reason = "each fault is independent")]
pub struct FaultTolerance {
    /// The holder's process dies: its lock becomes free, and the next waiter is served.
    pub holder_crash: bool,
    /// The holder's process is paused for longer than its ttl: its lock becomes free, and the next
    /// waiter is served. When the holder runs again, its next check reports the loss. `false`: the
    /// paused holder keeps its lock, and others wait until it runs again or dies.
    pub holder_pause: bool,
    /// The store's process dies and restarts: every lock keeps its holder.
    pub store_crash: bool,
    /// Another server takes over: every lock keeps its holder.
    pub failover: bool,
    /// The store's clock is set: every lease lasts for its ttl.
    pub clock_step: bool,
    /// The store's memory is full: it refuses new tickets, and keeps the old ones.
    pub full_memory: bool,
}

/// A guarantee that a program requires.
///
/// ```
/// use tenure::engine::Memory;
/// use tenure::guarantees::Guarantee;
/// use tenure::{ErrorKind, Locks};
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
    /// Tickets are served in the order of their joins.
    Fair,
    /// The store notifies a waiter when it is served.
    Push,
    /// Fencing tokens of at least this durability.
    Fencing(TokenDurability),
    /// Watchers get every event.
    EveryEvent,
    /// [`FaultTolerance::holder_crash`]: a lock becomes free when its holder dies.
    HolderCrash,
    /// [`FaultTolerance::holder_pause`]: a lock becomes free when its holder is paused for longer
    /// than its ttl.
    HolderPause,
    /// [`FaultTolerance::store_crash`]: locks are kept when the store's process dies and restarts.
    StoreCrash,
    /// [`FaultTolerance::failover`]: locks are kept when another server takes over.
    Failover,
    /// [`FaultTolerance::clock_step`]: a ttl is kept when the store's clock is set.
    ClockStep,
    /// [`FaultTolerance::full_memory`]: locks are kept when the store's memory is full.
    FullMemory,
}

impl Guarantees {
    /// Guarantees of safety alone: no order, no push, no reliable tokens, and no fault survived.
    /// Operations may take ten seconds.
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

    /// Checks that the store has all of these guarantees.
    ///
    /// # Errors
    ///
    /// [`Unsupported`](crate::ErrorKind::Unsupported), with the first that it does not have.
    pub fn require(&self, all: &[Guarantee]) -> Result<()> {
        match all.iter().find(|one| !self.meets(**one)) {
            None => Ok(()),
            Some(missing) => Err(Error::unsupported(format!(
                "{} does not promise {missing}: use a store that does, or do without",
                self.name
            ))),
        }
    }

    /// Whether the store has this guarantee.
    pub fn meets(&self, guarantee: Guarantee) -> bool {
        match guarantee {
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
            Self::Fair => "first-come, first-served order",
            Self::Push => "to notify waiters",
            Self::Fencing(TokenDurability::None) => "tokens",
            Self::Fencing(TokenDurability::Volatile) => "tokens that grow",
            Self::Fencing(TokenDurability::Durable) => "tokens that grow in every failure",
            Self::EveryEvent => "every event to watchers",
            Self::HolderCrash => "to free a lock whose holder died",
            Self::HolderPause => "to free a lock whose holder is paused for longer than its ttl",
            Self::StoreCrash => "to keep its locks when it crashes",
            Self::Failover => "to keep its locks when another server takes over",
            Self::ClockStep => "to keep a lock for its ttl when its clock is set",
            Self::FullMemory => "to keep its locks when its memory is full",
        })
    }
}
