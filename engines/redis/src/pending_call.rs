//! A call over a link. It occupies its room until the server is known to have answered: a server
//! executes a call whose caller is gone all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tenure_kit::{Disconnected, Room};
use tokio::time::timeout;

use crate::link::{MasterConnection, MasterLink};
use crate::trouble;

/// The calls of one connection that their callers abandoned, and the time of the last answer.
pub(crate) struct Unanswered {
    /// Number of abandoned calls that are not known to be answered.
    abandoned: AtomicUsize,
    /// Whether a task pings the server for them.
    is_pinging: AtomicBool,
    began: Instant,
    /// When the server answered last, in microseconds since `began`.
    heard_us: AtomicU64,
}

impl Unanswered {
    pub(crate) fn new() -> Self {
        Self {
            abandoned: AtomicUsize::new(0),
            is_pinging: AtomicBool::new(false),
            began: Instant::now(),
            heard_us: AtomicU64::new(0),
        }
    }

    /// Notes that the server answered now.
    fn hear(&self) {
        let now = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.heard_us.fetch_max(now, Ordering::Relaxed);
    }

    /// Whether the server has answered nothing from `then` on.
    fn is_silent_since(&self, then: Instant) -> bool {
        self.began + Duration::from_micros(self.heard_us.load(Ordering::Relaxed)) < then
    }
}

/// A call that occupies room on a connection.
///
/// If it is dropped between [`sent`](Self::sent) and [`answered`](Self::answered), its room stays
/// occupied until the server is known to have answered.
pub(crate) struct PendingCall<'a> {
    link: &'a MasterLink,
    connection: &'a Arc<MasterConnection>,
    room: Option<Room>,
    /// When the call was sent; `None` before that and after the answer.
    since: Option<Instant>,
}

impl<'a> PendingCall<'a> {
    /// Returns a call that is about to be sent.
    pub(crate) fn new(
        link: &'a MasterLink,
        connection: &'a Arc<MasterConnection>,
        room: Room,
    ) -> Self {
        Self { link, connection, room: Some(room), since: None }
    }

    /// Notes that the call is sent now.
    pub(crate) fn sent(&mut self) {
        self.since = Some(Instant::now());
    }

    /// Notes that the server has answered. An error is an answer.
    pub(crate) fn answered(&mut self) {
        self.since = None;
        self.connection.unanswered.hear();
    }
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            if let Some(room) = self.room.take() {
                room.keep();
            }
            abandoned(self.link, self.connection, since);
        }
    }
}

/// Notes that a caller dropped a call that the server may still answer.
fn abandoned(link: &MasterLink, connection: &Arc<MasterConnection>, since: Instant) {
    let (waited, patience) = (since.elapsed(), link.server().settings.timeout);
    let calls = &connection.unanswered;
    // After a much longer time this process itself was suspended: the connection may be sound.
    let is_time_over = (patience / 8 * 7..patience * 2).contains(&waited);
    if is_time_over && calls.is_silent_since(since) {
        return link
            .give_up_silent(connection.generation(), &trouble::late(&link.server().settings));
    }
    calls.abandoned.fetch_add(1, Ordering::AcqRel);
    if let Some(link) = link.this()
        && !calls.is_pinging.swap(true, Ordering::AcqRel)
    {
        let home = link.home().clone();
        home.spawn(ping_for_abandoned(link, connection.clone()));
    }
}

/// Pings the server until no call is abandoned. A server answers in the order of the requests, so
/// the answer to a ping frees the room of every call that was abandoned before the ping.
async fn ping_for_abandoned(link: Arc<MasterLink>, connection: Arc<MasterConnection>) {
    let (calls, patience) = (&connection.unanswered, link.server().settings.timeout);
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
        match timeout(patience, connection.ping()).await {
            Ok(Ok(())) => {
                calls.hear();
                connection.free(abandoned);
            }
            Ok(Err(Disconnected)) => {
                link.give_up(connection.generation());
                return;
            }
            Err(_) if sent.elapsed() < patience * 2 && calls.is_silent_since(sent) => {
                return link.give_up_silent(
                    connection.generation(),
                    &trouble::late(&link.server().settings),
                );
            }
            Err(_) => drop(calls.abandoned.fetch_add(abandoned, Ordering::AcqRel)),
        }
    }
}
