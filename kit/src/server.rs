//! The interface between a link and the server that it connects to.

use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_core::Result;

/// A server that a link connects to. Its address may change between two connections.
pub trait Server: Send + Sync + Sized + 'static {
    /// An open connection: the driver's connection and the state that belongs to it.
    type Open: Send + Sync + 'static;

    /// Opens a connection in a bounded time.
    ///
    /// # Errors
    ///
    /// An error that [is retryable](tenure_core::Error::is_retryable) may pass. Others need the
    /// operator.
    fn open(&self, opening: &ConnectContext) -> impl Future<Output = Result<Self::Open>> + Send;
}

/// An error: the connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected;

/// A link's runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The engine's own runtime. Its link stays connected by itself and receives notifications.
    Home,
    /// The runtime of a caller. It may stop whenever the caller blocks it.
    Caller,
}

/// The link behind a [`ConnectContext`]: it numbers its connections, and gives up lost ones.
pub(crate) trait LinkOwner: Send + Sync {
    fn next_generation(&self) -> u64;

    fn lose(&self, generation: u64);
}

/// The context of a connection that is being opened.
pub struct ConnectContext {
    owner: Weak<dyn LinkOwner>,
    side: Origin,
    generation: AtomicU64,
}

/// A notifier that reports the loss of one connection to its link.
#[derive(Clone)]
pub struct DisconnectNotifier {
    owner: Weak<dyn LinkOwner>,
    generation: u64,
}

impl ConnectContext {
    pub(crate) fn new(owner: Weak<dyn LinkOwner>, side: Origin) -> Self {
        Self { owner, side, generation: AtomicU64::new(0) }
    }

    /// The runtime of the link.
    pub fn side(&self) -> Origin {
        self.side
    }

    /// Returns a notifier for the connection that is tried now. The notifiers of earlier tries of
    /// the same context no longer have an effect.
    pub fn lost(&self) -> DisconnectNotifier {
        let generation = self.owner.upgrade().map_or(0, |owner| owner.next_generation());
        self.generation.store(generation, Ordering::Release);
        DisconnectNotifier { owner: self.owner.clone(), generation }
    }

    /// Returns the generation of the connection that was tried last.
    pub(crate) fn generation(&self) -> u64 {
        match self.generation.load(Ordering::Acquire) {
            0 => self.lost().generation,
            generation => generation,
        }
    }
}

impl DisconnectNotifier {
    /// Reports that the connection is lost. This may be called twice, and before the connection is
    /// in use.
    pub fn tell(&self) {
        if let Some(owner) = self.owner.upgrade() {
            owner.lose(self.generation);
        }
    }
}
