//! The calls in flight on one connection. Their number is bounded. A call that its caller abandons
//! stays in flight until the server has answered, because the server executes it all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::server::Disconnected;

/// Maximum calls in flight on one connection. A server that resumes after a stall executes at most
/// this many abandoned calls.
const CALLS_MAX: usize = 128;
/// Maximum verbs that run on their callers' tasks at a time: half of [`CALLS_MAX`]. A caller that
/// stops polling occupies its room on the connection; the other half remains for all other verbs.
pub const IN_PLACE_MAX: usize = CALLS_MAX / 2;

/// Room for one call on a connection, until this is dropped.
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

impl Room {
    /// Leaves the room occupied.
    pub(crate) fn keep(self) {
        self.0.forget();
    }
}

/// The calls in flight on one connection.
pub(crate) struct InFlight {
    room: Arc<Semaphore>,
    /// Number of calls that their callers abandoned, and that are not known to be answered.
    pub(crate) abandoned: AtomicUsize,
    /// Whether a task pings the server for the abandoned calls.
    pub(crate) is_pinging: AtomicBool,
    began: Instant,
    /// When the server answered last, in microseconds since `began`.
    heard_us: AtomicU64,
}

impl InFlight {
    pub(crate) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(CALLS_MAX)),
            abandoned: AtomicUsize::new(0),
            is_pinging: AtomicBool::new(false),
            began: Instant::now(),
            heard_us: AtomicU64::new(0),
        }
    }

    /// Waits for room for a call.
    pub(crate) async fn enter(&self) -> Result<Room, Disconnected> {
        self.room.clone().acquire_owned().await.map(Room).map_err(|_| Disconnected)
    }

    /// Frees the room of this number of abandoned calls.
    pub(crate) fn give_back(&self, calls: usize) {
        self.room.add_permits(calls);
    }

    /// Refuses further calls, and the callers that wait for room.
    pub(crate) fn close(&self) {
        self.room.close();
    }

    /// Notes that the server answered now.
    pub(crate) fn hear(&self) {
        let now = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard_us.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether the server has answered nothing from `then` on.
    pub(crate) fn is_silent_since(&self, then: Instant) -> bool {
        self.began + Duration::from_micros(self.heard_us.load(Ordering::Relaxed)) < then
    }
}
