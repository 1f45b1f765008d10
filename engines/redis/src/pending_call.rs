//! A call over a link. It occupies its room until the server is known to have answered: a server
//! executes a call whose caller is gone all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tenure_core::Error;
use tenure_kit::{Connection, Disconnected, Link, Room, Server};
use tokio::time::timeout;

/// A server that answers pings, in the order of the requests.
pub(crate) trait Pinged: Server {
    /// Returns the state of the abandoned calls of a connection.
    fn unanswered(open: &Self::Open) -> &Unanswered;

    /// Sends a request that costs the server nothing. The server answers it after every call that
    /// was sent before.
    fn ping(&self, open: &Self::Open) -> impl Future<Output = Result<(), Disconnected>> + Send;

    /// Time limit of an answer.
    fn patience(&self) -> Duration;

    /// Returns the error for a server that did not answer within [`patience`](Self::patience).
    fn silence(&self) -> Error;
}

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
pub(crate) struct PendingCall<'a, S: Pinged> {
    link: &'a Link<S>,
    connection: &'a Arc<Connection<S::Open>>,
    room: Option<Room>,
    /// When the call was sent; `None` before that and after the answer.
    since: Option<Instant>,
}

impl<'a, S: Pinged> PendingCall<'a, S> {
    /// Returns a call that is about to be sent.
    pub(crate) fn new(
        link: &'a Link<S>,
        connection: &'a Arc<Connection<S::Open>>,
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
        S::unanswered(self.connection).hear();
    }
}

impl<S: Pinged> Drop for PendingCall<'_, S> {
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
fn abandoned<S: Pinged>(link: &Link<S>, connection: &Arc<Connection<S::Open>>, since: Instant) {
    let (waited, patience) = (since.elapsed(), link.server().patience());
    let calls = S::unanswered(connection);
    // After a much longer time this process itself was suspended: the connection may be sound.
    let is_time_over = (patience / 8 * 7..patience * 2).contains(&waited);
    if is_time_over && calls.is_silent_since(since) {
        return link.give_up_silent(connection.generation(), &link.server().silence());
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
async fn ping_for_abandoned<S: Pinged>(link: Arc<Link<S>>, connection: Arc<Connection<S::Open>>) {
    let (calls, patience) = (S::unanswered(&connection), link.server().patience());
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
        match timeout(patience, link.server().ping(&connection)).await {
            Ok(Ok(())) => {
                calls.hear();
                connection.free(abandoned);
            }
            Ok(Err(Disconnected)) => {
                link.give_up(connection.generation());
                return;
            }
            Err(_) if sent.elapsed() < patience * 2 && calls.is_silent_since(sent) => {
                return link.give_up_silent(connection.generation(), &link.server().silence());
            }
            Err(_) => drop(calls.abandoned.fetch_add(abandoned, Ordering::AcqRel)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tenure_kit::{Client, ConnectContext};
    use tokio::sync::Notify;

    use super::*;

    /// Time limit of an event that must happen.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A fake server that a test controls.
    struct Stand {
        is_silent: AtomicBool,
        pings: AtomicUsize,
        pinged: Notify,
        patience: Duration,
    }

    impl Server for Stand {
        type Open = Unanswered;

        async fn open(&self, _context: &ConnectContext) -> tenure_core::Result<Unanswered> {
            Ok(Unanswered::new())
        }
    }

    impl Pinged for Stand {
        fn unanswered(open: &Unanswered) -> &Unanswered {
            open
        }

        async fn ping(&self, _open: &Unanswered) -> Result<(), Disconnected> {
            self.pings.fetch_add(1, Ordering::Relaxed);
            self.pinged.notify_one();
            if self.is_silent.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            Ok(())
        }

        fn patience(&self) -> Duration {
            self.patience
        }

        fn silence(&self) -> Error {
            Error::unavailable("it did not answer in time")
        }
    }

    fn client(patience: Duration) -> Arc<Client<Stand>> {
        let (is_silent, pings, pinged) =
            (AtomicBool::default(), AtomicUsize::default(), Notify::new());
        Client::new(Stand { is_silent, pings, pinged, patience })
    }

    async fn soon<T>(event: impl Future<Output = T>) -> T {
        timeout(PATIENCE, event).await.expect("it happens")
    }

    /// Returns room if there is some. Ignores tokio's budget of a task.
    fn room_now(
        link: &Link<Stand>,
        open: &Connection<Unanswered>,
    ) -> Option<Result<Room, Disconnected>> {
        tokio::task::unconstrained(link.room(open)).now_or_never()
    }

    #[tokio::test]
    async fn an_abandoned_call_keeps_its_room_until_the_server_has_answered() {
        let client = client(PATIENCE);
        let link = Link::on_demand(client.clone());
        let open = soon(link.connection()).await.unwrap();
        let mut calls = Vec::new();
        while let Some(room) = room_now(&link, &open) {
            let mut call = PendingCall::new(&*link, &open, room.unwrap());
            call.sent();
            calls.push(call);
        }
        assert!(calls.len() > 1, "there is room for several");
        client.server().is_silent.store(true, Ordering::Relaxed);
        drop(calls.pop());
        soon(client.server().pinged.notified()).await;
        assert!(room_now(&link, &open).is_none(), "it is not known to be answered");

        let mut answered = calls.pop().unwrap();
        answered.answered();
        drop(answered);
        drop(soon(link.room(&open)).await.unwrap());
        assert_eq!(client.server().pings.load(Ordering::Relaxed), 1, "one task pings for all");
    }

    #[tokio::test]
    async fn a_connection_to_a_silent_server_is_given_up() {
        let client = client(Duration::from_millis(200));
        let link = Link::on_demand(client.clone());
        let open = soon(link.connection()).await.unwrap();
        client.server().is_silent.store(true, Ordering::Relaxed);
        let mut call = PendingCall::new(&*link, &open, link.room(&open).await.unwrap());
        call.sent();
        drop(call);
        soon(async {
            while link.current().is_some() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        assert!(link.room(&open).await.is_err());
        let error = link.connection().await.err().unwrap();
        assert_eq!(error.to_string(), "it did not answer in time");
    }
}
