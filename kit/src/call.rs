//! A call over a link: it keeps its room until the server is known to have answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::time::timeout;

use crate::in_flight::Room;
use crate::link::{Connection, Link};
use crate::server::{Disconnected, Server};

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
            if let Some(room) = self.room.take() {
                room.keep();
            }
            self.link.was_left(self.connection, since);
        }
    }
}

impl<S: Server> Link<S> {
    /// Room for a call on this connection, once there is some.
    pub async fn room(&self, connection: &Connection<S::Open>) -> Result<Room, Disconnected> {
        connection.calls.enter().await
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
                    calls.give_back(left);
                }
                Ok(Err(Disconnected)) => {
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
