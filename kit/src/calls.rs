//! Calls: what is under way on one connection. There is room for a bounded number, and a call keeps its room until
//! the server has answered, even if its caller has gone: the server carries the call out all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::link::{Connection, Link};
use crate::server::{Ended, Server};

/// The most calls that may be under way on one connection: what a server that stood still carries out in vain.
const CALLS_MAX: usize = 128;

/// Room for one call on a connection.
#[derive(Debug)]
pub struct Room(OwnedSemaphorePermit);

/// What is under way on one connection.
pub(crate) struct Calls {
    room: Arc<Semaphore>,
    /// So many calls were left by their callers, and are not answered as far as is known.
    left: AtomicUsize,
    /// A task asks whether those have been answered.
    is_asking: AtomicBool,
    began: Instant,
    /// When the server was heard last, counted from the beginning.
    heard_us: AtomicU64,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self {
            room: Arc::new(Semaphore::new(CALLS_MAX)),
            left: AtomicUsize::new(0),
            is_asking: AtomicBool::new(false),
            began: Instant::now(),
            heard_us: AtomicU64::new(0),
        }
    }

    /// Nobody enters any more.
    pub(crate) fn close(&self) {
        self.room.close();
    }

    fn hear(&self) {
        let now = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard_us.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether nothing was heard from that moment on.
    fn is_silent_since(&self, then: Instant) -> bool {
        self.began + Duration::from_micros(self.heard_us.load(Ordering::Relaxed)) < then
    }
}

/// A call that takes up room. Dropped between [`sent`](Self::sent) and [`answered`](Self::answered), it keeps its
/// room until the server is known to have answered.
pub struct Call<'a, S: Server> {
    link: &'a Link<S>,
    connection: &'a Arc<Connection<S::Open>>,
    room: Option<Room>,
    /// It was sent then, and is not answered.
    since: Option<Instant>,
}

impl<S: Server> Call<'_, S> {
    /// The call is sent now.
    pub fn sent(&mut self) {
        self.since = Some(Instant::now());
    }

    /// The server has answered, whatever it said.
    pub fn answered(&mut self) {
        self.since = None;
        self.connection.calls.hear();
    }
}

impl<S: Server> Drop for Call<'_, S> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            if let Some(Room(permit)) = self.room.take() {
                permit.forget();
            }
            self.link.was_left(self.connection, since);
        }
    }
}

impl<S: Server> Link<S> {
    /// Room for a call on this connection, once there is some.
    pub async fn room(&self, connection: &Connection<S::Open>) -> Result<Room, Ended> {
        connection.calls.room.clone().acquire_owned().await.map(Room).map_err(|_| Ended)
    }

    /// A call that is about to be sent.
    pub fn call<'a>(&'a self, connection: &'a Arc<Connection<S::Open>>, room: Room) -> Call<'a, S> {
        Call { link: self, connection, room: Some(room), since: None }
    }

    /// A caller has gone, and the server may still answer.
    fn was_left(&self, connection: &Arc<Connection<S::Open>>, since: Instant) {
        let (waited, patience) = (since.elapsed(), self.server().patience());
        // Where this process itself stood still, a missing answer says nothing about the connection.
        let is_time_over = (patience / 8 * 7..patience * 2).contains(&waited);
        if is_time_over && connection.calls.is_silent_since(since) {
            return self.give_up_silent(connection.generation());
        }
        connection.calls.left.fetch_add(1, Ordering::AcqRel);
        if let Some(link) = self.this()
            && !connection.calls.is_asking.swap(true, Ordering::AcqRel)
        {
            self.home().spawn(link.ask_about_the_left(connection.clone()));
        }
    }

    /// Answers come in the order of the questions, so an answer gives back the room of all calls that were left
    /// before its question.
    async fn ask_about_the_left(self: Arc<Self>, connection: Arc<Connection<S::Open>>) {
        let (calls, patience) = (&connection.calls, self.server().patience());
        loop {
            let left = calls.left.swap(0, Ordering::AcqRel);
            if left == 0 {
                calls.is_asking.store(false, Ordering::Release);
                let none = calls.left.load(Ordering::Acquire) == 0;
                if none || calls.is_asking.swap(true, Ordering::AcqRel) {
                    return;
                }
                continue;
            }
            let asked = Instant::now();
            match timeout(patience, self.server().ping(&connection)).await {
                Ok(Ok(())) => {
                    calls.hear();
                    calls.room.add_permits(left);
                }
                Ok(Err(Ended)) => {
                    self.give_up(connection.generation());
                    return;
                }
                Err(_) if asked.elapsed() < patience * 2 && calls.is_silent_since(asked) => {
                    return self.give_up_silent(connection.generation());
                }
                Err(_) => drop(calls.left.fetch_add(left, Ordering::AcqRel)),
            }
        }
    }
}
