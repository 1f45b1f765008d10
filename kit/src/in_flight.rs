//! Calls: what is under way on one connection. There is room for a bounded number, and a call keeps its room until
//! the server has answered, even if its caller has gone: the server carries the call out all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::server::Disconnected;

/// The most calls that may be under way on one connection: what a server that stood still carries out in vain.
const CALLS_MAX: usize = 128;
/// So many verbs may be carried out where their callers are. Each may keep its room on a connection for as long as nobody polls
/// it, so that half of the room is left for everybody else.
pub const IN_PLACE_MAX: usize = CALLS_MAX / 2;

/// Room for one call on a connection.
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

impl Room {
    /// It is not given back when this is dropped.
    pub(crate) fn keep(self) {
        self.0.forget();
    }
}

/// What is under way on one connection.
pub(crate) struct InFlight {
    room: Arc<Semaphore>,
    /// So many calls were left by their callers, and are not answered as far as is known.
    pub(crate) left: AtomicUsize,
    /// A task asks whether those have been answered.
    pub(crate) is_asking: AtomicBool,
    began: Instant,
    /// When the server was heard last, counted from the beginning.
    heard_us: AtomicU64,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(CALLS_MAX)),
            left: AtomicUsize::new(0),
            is_asking: AtomicBool::new(false),
            began: Instant::now(),
            heard_us: AtomicU64::new(0),
        }
    }

    /// Room for a call, once there is some.
    pub(crate) async fn enter(&self) -> Result<Room, Disconnected> {
        self.room.clone().acquire_owned().await.map(Room).map_err(|_| Disconnected)
    }

    /// So many calls that kept their room are answered.
    pub(crate) fn give_back(&self, calls: usize) {
        self.room.add_permits(calls);
    }

    /// Nobody enters any more.
    pub(crate) fn close(&self) {
        self.room.close();
    }

    pub(crate) fn hear(&self) {
        let now = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard_us.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether nothing was heard from that moment on.
    pub(crate) fn is_silent_since(&self, then: Instant) -> bool {
        self.began + Duration::from_micros(self.heard_us.load(Ordering::Relaxed)) < then
    }
}
