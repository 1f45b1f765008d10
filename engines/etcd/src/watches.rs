//! Watches: one stream for all keys that a connection watches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::timeout;

use crate::calls::{Answers, Requests, Wire, stream};
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
struct Watched(Arc<Inner>);

#[derive(Default)]
struct Inner {
    /// `None`: the stream has ended.
    listeners: Mutex<Option<HashMap<i64, Listener>>>,
    /// Those of no more use of which the member could not be told at once. They are as many as there were watches, at most.
    unwanted: Mutex<Vec<i64>>,
    /// Rung when there is one more.
    more_unwanted: Notify,
    /// How many answers came.
    heard: AtomicU64,
    ended: Notify,
}

impl Watched {
    fn new() -> Self {
        let listeners = Mutex::new(Some(HashMap::new()));
        Self(Arc::new(Inner { listeners, ..Inner::default() }))
    }

    /// Not if the stream has ended: nobody would be told of anything.
    #[must_use]
    fn insert(&self, id: i64, listener: Listener) -> bool {
        self.listeners().as_mut().is_some_and(|all| all.insert(id, listener).is_none())
    }

    fn remove(&self, id: i64) {
        let removed = self.listeners().as_mut().and_then(|all| all.remove(&id));
        // What it would have told goes outside of the lock.
        drop(removed);
    }

    /// The stream has ended: whoever waits looks again.
    fn end(&self) {
        let ended = self.listeners().take();
        // What it would have told goes outside of the lock.
        drop(ended);
        self.0.ended.notify_one();
    }

    fn has_ended(&self) -> bool {
        self.listeners().is_none()
    }

    fn listeners(&self) -> MutexGuard<'_, Option<HashMap<i64, Listener>>> {
        lock(&self.0.listeners)
    }

    /// The request that ends the next watch of those of which the member has yet to be told.
    fn unwanted(&self) -> Option<WatchRequest> {
        lock(&self.0.unwanted).pop().map(cancel)
    }

    fn hear(&self, answer: WatchResponse) {
        self.0.heard.fetch_add(1, Ordering::Relaxed);
        // What it would have told goes outside of the lock.
        drop(self.pass_on(answer));
    }

    /// Answers the listener that hears nothing more.
    fn pass_on(&self, mut answer: WatchResponse) -> Option<Listener> {
        let mut all = self.listeners();
        let all = all.as_mut()?;
        if answer.watch_id < 0 && answer.canceled {
            // Late versions do not say which watch they refuse: it is one of those that have not begun.
            for (_, listener) in all.extract_if(|_, listener| listener.begun.is_some()) {
                if let Some(begun) = listener.begun {
                    // Who asked may have given up.
                    let _gone = begun.send(Err(answer.cancel_reason.clone()));
                }
            }
            return None;
        }
        let listener = all.get_mut(&answer.watch_id)?;
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
        if is_over || is_full { all.remove(&id) } else { None }
    }
}

fn cancel(watch_id: i64) -> WatchRequest {
    let cancel = WatchCancelRequest { watch_id };
    WatchRequest { request_union: Some(RequestUnion::CancelRequest(cancel)) }
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
        if self.open.send.try_send(cancel(self.id)).is_err() {
            // Too much is on its way. Whoever sends that tells the member of this watch afterwards.
            let watched = &self.open.watched.0;
            lock(&watched.unwanted).push(self.id);
            watched.more_unwanted.notify_one();
        }
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
        let heard = open.watched.0.heard.load(Ordering::Relaxed);
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
        let Ok(begun) = timeout(self.patience, has_begun).await else {
            let watched = &watch.open.watched;
            if watched.0.heard.load(Ordering::Relaxed) == heard {
                // The stream is silent: the next watch opens another, and all who listen to this one look again.
                watched.end();
            }
            return Err(Status::new(Code::GivenUp, "a watch did not begin in time"));
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
            () = say(send, &mut requests, &watched) => {}
            () = hear(answers, &watched) => {}
            () = watched.0.ended.notified() => {}
        }
    }
    watched.end();
}

/// Ends with the stream, and with the last who could send.
async fn say(
    mut send: Requests<WatchRequest>,
    requests: &mut mpsc::Receiver<WatchRequest>,
    watched: &Watched,
) {
    loop {
        // What is of no more use was asked for before, and the member must have heard of it first.
        let next = if let Some(next) = requests.try_recv().ok().or_else(|| watched.unwanted()) {
            next
        } else {
            tokio::select! {
                next = requests.recv() => match next {
                    Some(next) => next,
                    None => return,
                },
                () = watched.0.more_unwanted.notified() => continue,
            }
        };
        if send.say(&next).await.is_err() {
            return;
        }
    }
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

    #[test]
    fn who_cannot_say_at_once_that_a_watch_is_of_no_more_use_says_it_later() {
        let (send, mut requests) = mpsc::channel(1);
        let open = Open { send, watched: Watched::new() };
        let watch = |id| Watch { at: 0, id, open: open.clone() };
        let all = [watch(1), watch(2), watch(3)];
        drop(all);
        assert_eq!(requests.try_recv(), Ok(cancel(1)));
        let late = [open.watched.unwanted(), open.watched.unwanted(), open.watched.unwanted()];
        assert_eq!(late, [Some(cancel(3)), Some(cancel(2)), None]);
    }
}
