//! Watches: one stream for all keys that a connection watches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::calls::{Answers, Wire, stream};
use crate::keys::Span;
use crate::status::{Code, Status};
use crate::wire::watch_request::RequestUnion;
use crate::wire::{Event, WatchCancelRequest, WatchCreateRequest, WatchRequest, WatchResponse};

const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// So many requests may be on their way to the member.
const UNDER_WAY_MAX: usize = 1024;
/// An onlooker that is behind by more answers than these begins anew.
const BEHIND_MAX: usize = 256;

/// The stream of one connection. It is opened when it is first needed, and anew after it broke.
pub(crate) struct Watches {
    wire: Wire,
    /// The runtime of the connection, which lives longer than whoever asks first.
    home: Handle,
    /// So long a member has to begin.
    patience: Duration,
    open: Mutex<Option<Open>>,
    last: AtomicI64,
}

#[derive(Clone)]
struct Open {
    send: mpsc::Sender<WatchRequest>,
    watched: Watched,
}

impl Open {
    fn is_open(&self) -> bool {
        !self.send.is_closed() && !self.watched.has_ended()
    }
}

/// What is watched over one stream.
#[derive(Clone)]
struct Watched(Arc<Mutex<Option<HashMap<i64, Listener>>>>);

impl Watched {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(HashMap::new()))))
    }

    /// Not if the stream has ended: nobody would be told of anything.
    #[must_use]
    fn insert(&self, id: i64, listener: Listener) -> bool {
        lock(&self.0).as_mut().is_some_and(|all| all.insert(id, listener).is_none())
    }

    fn remove(&self, id: i64) {
        let removed = lock(&self.0).as_mut().and_then(|all| all.remove(&id));
        // What it would have told goes outside of the lock.
        drop(removed);
    }

    /// The stream has ended: whoever waits looks again.
    fn end(&self) {
        let ended = lock(&self.0).take();
        // What it would have told goes outside of the lock.
        drop(ended);
    }

    fn has_ended(&self) -> bool {
        lock(&self.0).is_none()
    }

    fn hear(&self, mut answer: WatchResponse) {
        let mut all = lock(&self.0);
        let Some(all) = &mut *all else { return };
        if answer.watch_id < 0 && answer.canceled {
            // Late versions do not say which watch they refuse: it is one of those that have not begun.
            for (_, listener) in all.extract_if(|_, listener| listener.begun.is_some()) {
                if let Some(begun) = listener.begun {
                    // Who asked may have given up.
                    let _gone = begun.send(Err(answer.cancel_reason.clone()));
                }
            }
            return;
        }
        let Some(listener) = all.get_mut(&answer.watch_id) else { return };
        if let Some(begun) = listener.begun.take() {
            let at = answer.header.map_or(0, |header| header.revision);
            let outcome = if answer.canceled { Err(answer.cancel_reason.clone()) } else { Ok(at) };
            // Who asked may have given up.
            let _gone = begun.send(outcome);
        }
        let after = listener.after;
        answer.events.retain(|event| event.kv.as_ref().is_some_and(|kv| kv.mod_revision > after));
        let id = answer.watch_id;
        let is_over = answer.canceled || answer.compact_revision > 0;
        // That it is over is news, too.
        let is_news = !answer.events.is_empty() || is_over;
        let is_full = is_news && !listener.sink.take(answer);
        if is_over || is_full {
            all.remove(&id);
        }
    }
}

/// Where answers go.
enum Sink {
    /// To whoever asks for them.
    Queue(mpsc::Sender<WatchResponse>),
    /// To a call.
    Call(Call),
}

/// It is quick, and is dropped with its watch.
type Call = Box<dyn FnMut(&[Event]) + Send>;

impl Sink {
    /// Whether it took the answer.
    fn take(&mut self, answer: WatchResponse) -> bool {
        match self {
            Self::Queue(queue) => queue.try_send(answer).is_ok(),
            Self::Call(call) => {
                call(&answer.events);
                true
            }
        }
    }
}

/// One key or span that is watched.
struct Listener {
    /// Told when the member has begun to watch, and at which revision.
    begun: Option<oneshot::Sender<Result<i64, String>>>,
    sink: Sink,
    /// What is older than this is no news: members were seen to replay the past.
    after: i64,
}

/// What is watched, until this is dropped.
pub(crate) struct Watch {
    pub(crate) at: i64,
    id: i64,
    open: Open,
}

/// A watch, and what it tells.
pub(crate) struct News {
    pub(crate) watch: Watch,
    answers: mpsc::Receiver<WatchResponse>,
}

impl News {
    /// The next events; `None` if some may be missed from here on.
    pub(crate) async fn next(&mut self) -> Option<WatchResponse> {
        self.answers.recv().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.open.watched.remove(self.id);
        let cancel = WatchCancelRequest { watch_id: self.id };
        let request = WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) };
        // If that cannot be sent, what comes is for nobody.
        let _full = self.open.send.try_send(request);
    }
}

impl Watches {
    pub(crate) fn on(wire: Wire, patience: Duration) -> Self {
        let (home, open) = (Handle::current(), Mutex::default());
        Self { wire, home, patience, open, last: AtomicI64::new(0) }
    }

    /// Watches one key from now on, for a change after the revision `after`.
    pub(crate) async fn key(&self, key: Vec<u8>, after: u64) -> Result<News, Status> {
        let request = WatchCreateRequest { key, ..WatchCreateRequest::default() };
        self.news(request, crate::keys::number(after), 1).await
    }

    /// Watches a span from now on, and passes on what happens in it after the revision `after`, in order. The call is dropped
    /// when something may be missed from there on.
    pub(crate) async fn tell(
        &self,
        span: Span,
        after: u64,
        call: impl FnMut(&[Event]) + Send + 'static,
    ) -> Result<Watch, Status> {
        let (key, range_end) = (span.from, span.end);
        let request = WatchCreateRequest { key, range_end, ..WatchCreateRequest::default() };
        self.watch(request, crate::keys::number(after), Sink::Call(Box::new(call))).await
    }

    /// Watches a span from this revision on, with what each key was before.
    pub(crate) async fn span(&self, span: Span, from: u64) -> Result<News, Status> {
        let start_revision = crate::keys::number(from);
        let (key, range_end, prev_kv) = (span.from, span.end, true);
        let request =
            WatchCreateRequest { key, range_end, start_revision, prev_kv, ..Default::default() };
        self.news(request, start_revision - 1, BEHIND_MAX).await
    }

    async fn news(
        &self,
        create: WatchCreateRequest,
        after: i64,
        most: usize,
    ) -> Result<News, Status> {
        let (queue, answers) = mpsc::channel(most);
        let watch = self.watch(create, after, Sink::Queue(queue)).await?;
        Ok(News { watch, answers })
    }

    async fn watch(
        &self,
        mut create: WatchCreateRequest,
        after: i64,
        sink: Sink,
    ) -> Result<Watch, Status> {
        let open = self.open();
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (begun, has_begun) = oneshot::channel();
        let listener = Listener { begun: Some(begun), sink, after };
        let broken = || Status::ended(String::new());
        if !open.watched.insert(id, listener) {
            return Err(broken());
        }
        let mut watch = Watch { at: 0, id, open };
        create.watch_id = id;
        // What happened at once may be more than one message carries: a lease with all its tickets ended.
        create.fragment = true;
        let request = WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        watch.open.send.send(request).await.map_err(|_| broken())?;
        let late = || Status::new(Code::GivenUp, "a watch did not begin in time");
        let begun = timeout(self.patience, has_begun).await.map_err(|_| late())?;
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

    fn open(&self) -> Open {
        let mut slot = lock(&self.open);
        if let Some(open) = slot.as_ref().filter(|open| open.is_open()) {
            return open.clone();
        }
        let (send, requests) = mpsc::channel(UNDER_WAY_MAX);
        let open = Open { send, watched: Watched::new() };
        self.home.spawn(run(self.wire.clone(), requests, open.watched.clone()));
        slot.insert(open).clone()
    }
}

async fn run(wire: Wire, mut requests: mpsc::Receiver<WatchRequest>, watched: Watched) {
    if let Ok((send, answers)) = stream(&wire, WATCH).await {
        tokio::select! {
            () = send.say_all(&mut requests) => {}
            () = hear(answers, &watched) => {}
        }
    }
    watched.end();
}

async fn hear(mut answers: Answers<WatchResponse>, watched: &Watched) {
    while let Ok(Some(answer)) = answers.message().await {
        watched.hear(answer);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_when_the_stream_has_ended_is_told_so() {
        let watched = Watched::new();
        let listener = || {
            let (begun, has_begun) = oneshot::channel();
            let sink = Sink::Call(Box::new(|_| {}));
            (Listener { begun: Some(begun), sink, after: 0 }, has_begun)
        };
        let ((one, mut has_begun), (late, _)) = (listener(), listener());
        assert!(watched.insert(1, one));
        watched.end();
        assert!(
            has_begun.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed)
        );
        assert!(watched.has_ended() && !watched.insert(2, late));
    }
}
