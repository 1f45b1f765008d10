//! The store's notices, received while a task watches a ticket.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_core::sync::Mutex;
use tenure_core::{Backoff, Error, Result, Runtime};
use tenure_kit::subscriptions::Subscriptions;
use tokio::sync::{Notify, mpsc, watch};

use crate::contract::RecordStore;
use crate::notice::{Inbox, RecordNotice};

/// Time that the client listens on after the last task stopped watching.
const LINGER: Duration = Duration::from_secs(5);
/// Longest pause before the client tries to listen again.
const LISTEN_AGAIN_MAX: Duration = Duration::from_secs(5);
/// Pauses before the client tries to listen again. They begin anew after it has listened for
/// [`LISTEN_AGAIN_MAX`].
const LISTEN_AGAIN: Backoff = Backoff::new(Duration::from_millis(50), LISTEN_AGAIN_MAX);

/// Listens for all tickets of a client at once.
pub(crate) struct NoticeListener<S> {
    store: Arc<S>,
    runtime: Arc<dyn Runtime>,
    pub(crate) inbox: Inbox,
    pub(crate) subscriptions: Subscriptions,
    /// Whether notices arrive.
    is_open: watch::Sender<bool>,
    state: Mutex<ListenerState>,
    /// Notified when the last watcher stops.
    is_idle: Notify,
}

#[derive(Default)]
struct ListenerState {
    watchers: usize,
    /// Whether the task runs. It stays set if the store never delivers notices.
    is_running: bool,
}

/// A task watches a ticket.
pub(crate) struct NoticeWatcher<S: RecordStore>(Arc<NoticeListener<S>>);

impl<S: RecordStore> NoticeListener<S> {
    pub(crate) fn new(store: Arc<S>, runtime: Arc<dyn Runtime>) -> Self {
        Self {
            store,
            inbox: Inbox(runtime.random()),
            runtime,
            subscriptions: Subscriptions::default(),
            is_open: watch::Sender::new(false),
            state: Mutex::default(),
            is_idle: Notify::new(),
        }
    }

    /// Listens until the watcher is dropped, and [`LINGER`] longer.
    pub(crate) fn watch(self: &Arc<Self>) -> NoticeWatcher<S> {
        let mut state = self.state.lock();
        state.watchers += 1;
        if !std::mem::replace(&mut state.is_running, true) {
            self.runtime.spawn(Box::pin(self.clone().run()));
        }
        NoticeWatcher(self.clone())
    }

    /// Waits until no notices arrive.
    pub(crate) async fn is_deaf(&self) {
        // The sender is in `self`, so it is not dropped.
        let _ = self.is_open.subscribe().wait_for(|is_open| !is_open).await;
    }

    async fn run(self: Arc<Self>) {
        let mut backoff = LISTEN_AGAIN;
        loop {
            match self.listen().await {
                Ok(Some(notices)) => {
                    let opened = self.runtime.now();
                    self.is_open.send_replace(true);
                    // A change before this moment was not reported.
                    self.subscriptions.interrupted();
                    self.hear(notices).await;
                    self.is_open.send_replace(false);
                    if self.runtime.now().has_reached(opened.plus(LISTEN_AGAIN_MAX)) {
                        backoff.reset();
                    }
                }
                Ok(None) => return,
                Err(error) => tracing::debug!(%error, "notices do not arrive: waiters poll"),
            }
            if self.ends() {
                return;
            }
            self.runtime.sleep(backoff.next(self.runtime.random())).await;
        }
    }

    async fn listen(&self) -> Result<Option<mpsc::Receiver<RecordNotice>>> {
        let guarantees = self.store.guarantees();
        let late = self.runtime.sleep(guarantees.answers_within);
        match select(pin!(self.store.listen(self.inbox)), late).await {
            Either::Left((opened, _)) => opened,
            Either::Right(_) => Err(Error::unavailable("the store does not listen in time")),
        }
    }

    /// Delivers notices until the channel ends or no task watches.
    async fn hear(&self, mut notices: mpsc::Receiver<RecordNotice>) {
        let mut idle = pin!(self.idle());
        loop {
            match select(pin!(notices.recv()), idle.as_mut()).await {
                Either::Left((Some(RecordNotice { ticket, kind, .. }), _)) => {
                    self.subscriptions.deliver(ticket, kind.into());
                }
                Either::Left((None, _)) | Either::Right(_) => return,
            }
        }
    }

    async fn idle(&self) {
        loop {
            self.is_idle.notified().await;
            self.runtime.sleep(LINGER).await;
            if self.state.lock().watchers == 0 {
                return;
            }
        }
    }

    fn ends(&self) -> bool {
        let mut state = self.state.lock();
        state.is_running = state.watchers > 0;
        !state.is_running
    }
}

impl<S: RecordStore> Drop for NoticeWatcher<S> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.watchers -= 1;
        if state.watchers == 0 {
            self.0.is_idle.notify_one();
        }
    }
}
