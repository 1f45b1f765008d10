//! Watches: one stream for all keys that a connection watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use tenure_core::sync::Mutex;

use crate::calls::{Answers, AuthorizedChannel, Requests, stream};
use crate::listeners::{StreamWatches, WatchListener, cancel};
use crate::names::Span;
use crate::status::{Code, Status};
use crate::wire::watch_request::RequestUnion;
use crate::wire::{WatchCreateRequest, WatchRequest, WatchResponse};

const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Maximum requests in flight to the member.
const UNDER_WAY_MAX: usize = 1024;
/// Ids of watches are larger than this. A proxy that gives ids of its own counts from 0.
const FIRST_ID: i64 = 1 << 32;
/// Maximum answers that an onlooker may be behind. Beyond that it begins anew.
const BEHIND_MAX: usize = 256;

/// The stream of one connection. It is opened at first use, and again after it broke.
pub(crate) struct KeyWatches {
    wire: AuthorizedChannel,
    /// The runtime of the connection, which outlives the first caller.
    home: Handle,
    /// Time that a member has to begin a watch.
    patience: Duration,
    open: Mutex<Option<WatchStream>>,
    last: AtomicI64,
}

#[derive(Clone)]
struct WatchStream {
    send: mpsc::Sender<WatchRequest>,
    watched: Arc<StreamWatches>,
}

impl WatchStream {
    fn is_open(&self) -> bool {
        !self.send.is_closed() && !self.watched.has_ended()
    }
}

/// A watch, until it is dropped.
pub(crate) struct KeyWatch {
    /// The revision at which the member has begun to watch.
    pub(crate) at: i64,
    id: i64,
    open: WatchStream,
    answers: mpsc::Receiver<WatchResponse>,
}

impl KeyWatch {
    /// Returns the next events; `None` if some may be missed from here on.
    pub(crate) async fn next(&mut self) -> Option<WatchResponse> {
        self.answers.recv().await
    }
}

impl Drop for KeyWatch {
    fn drop(&mut self) {
        let given = self.open.watched.remove(self.id);
        if self.open.send.try_send(cancel(given)).is_err() {
            // Too many requests are in flight. The sending task cancels this watch at the member
            // afterwards.
            self.open.watched.is_unwanted(given);
        }
    }
}

impl KeyWatches {
    pub(crate) fn on(wire: AuthorizedChannel, patience: Duration) -> Self {
        let (home, open) = (Handle::current(), Mutex::default());
        Self { wire, home, patience, open, last: AtomicI64::new(FIRST_ID) }
    }

    /// Watches one key from now on, for a change after the revision `after`.
    pub(crate) async fn key(&self, key: Vec<u8>, after: u64) -> Result<KeyWatch, Status> {
        let request = WatchCreateRequest { key, ..WatchCreateRequest::default() };
        self.watch(request, crate::names::number(after), 1).await
    }

    /// Watches a span from this revision on, with the earlier value of each key.
    pub(crate) async fn span(&self, span: Span, from: u64) -> Result<KeyWatch, Status> {
        let start_revision = crate::names::number(from);
        let (key, range_end, prev_kv) = (span.from, span.end, true);
        let request =
            WatchCreateRequest { key, range_end, start_revision, prev_kv, ..Default::default() };
        self.watch(request, start_revision - 1, BEHIND_MAX).await
    }

    async fn watch(
        &self,
        mut create: WatchCreateRequest,
        after: i64,
        most: usize,
    ) -> Result<KeyWatch, Status> {
        let (open, (queue, answers)) = (self.open(), mpsc::channel(most));
        let heard = open.watched.heard.load(Ordering::Relaxed);
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (begun, has_begun) = oneshot::channel();
        let listener = WatchListener { begun: Some(begun), queue, after, given: None };
        let broken = || Status::ended(String::new());
        let silent = |watched: &StreamWatches| {
            if watched.has_turn(id) || watched.heard.load(Ordering::Relaxed) == heard {
                // The stream is silent, or one watch delays the others. The next watch opens
                // another stream, and all listeners of this one read again.
                watched.end();
            }
            Status::new(Code::GivenUp, "a watch did not begin in time")
        };
        // There is no await between the turn and the request: a turn without a request would make
        // all others wait.
        let turn = async { (open.send.clone().reserve_owned().await, open.watched.turn().await) };
        let Ok((room, turn)) = timeout(self.patience, turn).await else {
            return Err(silent(&open.watched));
        };
        let room = room.map_err(|_| broken())?;
        if !open.watched.insert(id, listener, turn) {
            return Err(broken());
        }
        let mut watch = KeyWatch { at: 0, id, open, answers };
        create.watch_id = id;
        // The changes of one moment may be more than one message carries: a lease ended with all
        // its tickets.
        create.fragment = true;
        room.send(WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) });
        let Ok(begun) = timeout(self.patience, has_begun).await else {
            return Err(silent(&watch.open.watched));
        };
        match begun.map_err(|_| broken())? {
            Ok(at) => {
                watch.at = at;
                Ok(watch)
            }
            Err(why) if why.contains("permission denied") => {
                Err(Status::new(Code::PermissionDenied, why))
            }
            Err(why) => Err(Status::unavailable(why)),
        }
    }

    fn open(&self) -> WatchStream {
        let mut slot = self.open.lock();
        if let Some(open) = slot.as_ref().filter(|open| open.is_open()) {
            return open.clone();
        }
        let (send, requests) = mpsc::channel(UNDER_WAY_MAX);
        let open = WatchStream { send, watched: StreamWatches::new() };
        self.home.spawn(run(self.wire.clone(), requests, open.watched.clone()));
        slot.insert(open).clone()
    }
}

async fn run(
    wire: AuthorizedChannel,
    mut requests: mpsc::Receiver<WatchRequest>,
    watched: Arc<StreamWatches>,
) {
    if let Ok((send, answers)) = stream(&wire, WATCH).await {
        tokio::select! {
            () = say(send, &mut requests, &watched) => {}
            () = hear(answers, &watched) => {}
            () = watched.ended.notified() => {}
        }
    }
    watched.end();
}

/// Runs until the stream ends, or the last sender is dropped.
async fn say(
    mut send: Requests<WatchRequest>,
    requests: &mut mpsc::Receiver<WatchRequest>,
    watched: &StreamWatches,
) {
    loop {
        // A watch to cancel was created before, and the member must receive that request first.
        let next = if let Some(next) = requests.try_recv().ok().or_else(|| watched.unwanted()) {
            next
        } else {
            tokio::select! {
                next = requests.recv() => match next {
                    Some(next) => next,
                    None => return,
                },
                () = watched.more_unwanted.notified() => continue,
            }
        };
        if send.say(&next).await.is_err() {
            return;
        }
    }
}

async fn hear(mut answers: Answers<WatchResponse>, watched: &StreamWatches) {
    while let Ok(Some(answer)) = answers.message().await {
        watched.hear(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_say_at_once_that_a_watch_is_of_no_more_use_says_it_later() {
        let (send, mut requests) = mpsc::channel(1);
        let open = WatchStream { send, watched: StreamWatches::new() };
        let watch = |id| KeyWatch { at: 0, id, open: open.clone(), answers: mpsc::channel(1).1 };
        let all = [watch(1), watch(2), watch(3)];
        drop(all);
        assert_eq!(requests.try_recv(), Ok(cancel(1)));
        let late = [open.watched.unwanted(), open.watched.unwanted(), open.watched.unwanted()];
        assert_eq!(late, [Some(cancel(3)), Some(cancel(2)), None]);
    }
}
