//! The calls in flight on one connection. Their number is bounded.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::link::{Connection, Link};
use crate::server::{Disconnected, Server};

/// Maximum calls in flight on one connection. A server that resumes after a stall executes at most
/// this many abandoned calls.
const CALLS_MAX: usize = 128;
/// Maximum verbs that run on their callers' tasks at a time: half of the calls in flight. A caller
/// that stops polling occupies its room on the connection. The other half remains for other verbs.
pub const IN_PLACE_MAX: usize = CALLS_MAX / 2;

/// Room for one call on a connection, until this is dropped.
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

impl Room {
    /// Leaves the room occupied until [`Connection::free`].
    pub fn keep(self) {
        self.0.forget();
    }
}

/// The calls in flight on one connection.
pub(crate) struct InFlight(Arc<Semaphore>);

impl InFlight {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(CALLS_MAX)))
    }

    /// Refuses further calls, and the callers that wait for room.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

impl<S: Server> Link<S> {
    /// Waits for room for a call on `connection`.
    ///
    /// # Errors
    ///
    /// [`Disconnected`] if the connection was given up.
    pub async fn room(&self, connection: &Connection<S::Open>) -> Result<Room, Disconnected> {
        let room = connection.calls.0.clone().acquire_owned().await;
        room.map(Room).map_err(|_| Disconnected)
    }
}

impl<O> Connection<O> {
    /// Frees the room of this number of calls that [kept](Room::keep) it.
    pub fn free(&self, calls: usize) {
        self.calls.0.add_permits(calls);
    }
}
