//! What a link must know of its server, and what the server's side tells a link.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_core::{Error, Result};

/// A server, as far as a link must know it. Where it is may change; a link follows.
pub trait Server: Send + Sync + Sized + 'static {
    /// What is open while a connection works: the driver's own connection, and what belongs to it.
    type Open: Send + Sync + 'static;

    /// Opens a connection, in a bounded time. An error that [is unknown](Error::is_retryable) may pass; others are for
    /// the operator to mend.
    fn open(&self, opening: &ConnectContext) -> impl Future<Output = Result<Self::Open>> + Send;

    /// Asks the server something that costs it nothing. It answers after all calls that were sent before.
    fn ping(&self, open: &Self::Open) -> impl Future<Output = Result<(), Disconnected>> + Send;

    /// How long an answer is waited for.
    fn patience(&self) -> Duration;

    /// What is said of the server when it does not answer in time.
    fn silence(&self) -> Error;
}

/// The connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

/// On whose runtime a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The engine's own. Its link stays connected by itself, and hears what the server tells tickets.
    Home,
    /// A caller's, which may stand still whenever the caller does.
    Caller,
}

/// What numbers its connections, and gives those up that are lost.
pub(crate) trait LinkOwner: Send + Sync {
    fn next_generation(&self) -> u64;

    fn lose(&self, generation: u64);
}

/// A connection that is about to be opened.
pub struct ConnectContext {
    owner: Weak<dyn LinkOwner>,
    side: Origin,
    generation: AtomicU64,
}

/// Tells a link that a connection of it was lost.
#[derive(Clone)]
pub struct DisconnectNotifier {
    owner: Weak<dyn LinkOwner>,
    generation: u64,
}

impl ConnectContext {
    pub(crate) fn new(owner: Weak<dyn LinkOwner>, side: Origin) -> Self {
        Self { owner, side, generation: AtomicU64::new(0) }
    }

    /// Whose link it is for.
    pub fn side(&self) -> Origin {
        self.side
    }

    /// What is to be told when the connection that is tried now was lost. What is told of earlier tries of this
    /// opening does not matter any more.
    pub fn lost(&self) -> DisconnectNotifier {
        let generation = self.owner.upgrade().map_or(0, |owner| owner.next_generation());
        self.generation.store(generation, Ordering::Release);
        DisconnectNotifier { owner: self.owner.clone(), generation }
    }

    /// The generation of the connection that was tried last.
    pub(crate) fn generation(&self) -> u64 {
        match self.generation.load(Ordering::Acquire) {
            0 => self.lost().generation,
            generation => generation,
        }
    }
}

impl DisconnectNotifier {
    /// The connection is lost. It does no harm to tell it twice, or before the connection is in use.
    pub fn tell(&self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.lose(self.generation);
        }
    }
}
