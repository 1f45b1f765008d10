//! A call over a link. It occupies its room until the server is known to have answered.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::time::timeout;

use crate::in_flight::Room;
use crate::link::{Connection, Link};
use crate::server::{Disconnected, Server};

/// A call that occupies room on a connection.
///
/// If it is dropped between [`sent`](Self::sent) and [`answered`](Self::answered), its room stays
/// occupied until the server is known to have answered.
pub struct Call<'a, S: Server> {
    link: &'a Link<S>,
    connection: &'a Arc<Connection<S::Open>>,
    room: Option<Room>,
    /// When the call was sent; `None` before that and after the answer.
    since: Option<Instant>,
}

impl<S: Server> Call<'_, S> {
    /// Notes that the call is sent now.
    pub fn sent(&mut self) {
        self.since = Some(Instant::now());
    }

    /// Notes that the server has answered. An error is an answer.
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
            self.link.abandoned(self.connection, since);
        }
    }
}

impl<S: Server> Link<S> {
    /// Waits for room for a call on `connection`.
    ///
    /// # Errors
    ///
    /// [`Disconnected`] if the connection was given up.
    pub async fn room(&self, connection: &Connection<S::Open>) -> Result<Room, Disconnected> {
        connection.calls.enter().await
    }

    /// Returns a call that is about to be sent.
    pub fn call<'a>(&'a self, connection: &'a Arc<Connection<S::Open>>, room: Room) -> Call<'a, S> {
        Call { link: self, connection, room: Some(room), since: None }
    }

    /// Notes that a caller dropped a call that the server may still answer.
    fn abandoned(&self, connection: &Arc<Connection<S::Open>>, since: Instant) {
        let (waited, patience) = (since.elapsed(), self.server().patience());
        // After a much longer time this process itself was suspended: the connection may be sound.
        let is_time_over = (patience / 8 * 7..patience * 2).contains(&waited);
        if is_time_over && connection.calls.is_silent_since(since) {
            return self.give_up_silent(connection.generation());
        }
        connection.calls.abandoned.fetch_add(1, Ordering::AcqRel);
        if let Some(link) = self.this()
            && !connection.calls.is_pinging.swap(true, Ordering::AcqRel)
        {
            self.home().spawn(link.ping_for_abandoned(connection.clone()));
        }
    }

    /// Pings the server until no call is abandoned. A server answers in the order of the requests,
    /// so the answer to a ping frees the room of every call that was abandoned before the ping.
    async fn ping_for_abandoned(self: Arc<Self>, connection: Arc<Connection<S::Open>>) {
        let (calls, patience) = (&connection.calls, self.server().patience());
        loop {
            let abandoned = calls.abandoned.swap(0, Ordering::AcqRel);
            if abandoned == 0 {
                calls.is_pinging.store(false, Ordering::Release);
                let none = calls.abandoned.load(Ordering::Acquire) == 0;
                if none || calls.is_pinging.swap(true, Ordering::AcqRel) {
                    return;
                }
                continue;
            }
            let sent = Instant::now();
            match timeout(patience, self.server().ping(&connection)).await {
                Ok(Ok(())) => {
                    calls.hear();
                    calls.give_back(abandoned);
                }
                Ok(Err(Disconnected)) => {
                    self.give_up(connection.generation());
                    return;
                }
                Err(_) if sent.elapsed() < patience * 2 && calls.is_silent_since(sent) => {
                    return self.give_up_silent(connection.generation());
                }
                Err(_) => drop(calls.abandoned.fetch_add(abandoned, Ordering::AcqRel)),
            }
        }
    }
}
