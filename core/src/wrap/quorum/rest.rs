//! The rest of a question: verbs on their way whose answers nobody waits for, seen to the end together.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::select;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::{Boxed, Host};

/// They are looked at so much later: to wake the host for each of them would cost more than the verb.
const PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Rest {
    pub(super) host: Arc<dyn Host>,
    /// How long a store may take to answer.
    pub(super) patience: Duration,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    verbs: Vec<Boxed<()>>,
    seen_to: bool,
}

impl Rest {
    pub(super) fn new(host: Arc<dyn Host>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { host, patience, book: Mutex::default() })
    }

    /// Sends a verb now; its end comes later.
    pub(super) fn send(self: &Arc<Self>, mut verb: Boxed<()>) {
        if (&mut verb).now_or_never().is_none() {
            self.add(verb);
        }
    }

    /// What was sent already, and has not ended.
    pub(super) fn add(self: &Arc<Self>, verb: Boxed<()>) {
        let mut book = self.book();
        book.verbs.push(verb);
        if !std::mem::replace(&mut book.seen_to, true) {
            drop(book);
            let rest = self.clone();
            self.host.spawn(Box::pin(async move { rest.see_to().await }));
        }
    }

    /// Hears of those that have ended by now, so that they do not pile up where much is asked.
    pub(super) fn glance(&self) {
        let mut book = self.book();
        if !book.verbs.is_empty() {
            book.verbs.retain_mut(|verb| verb.now_or_never().is_none());
        }
    }

    async fn see_to(&self) {
        loop {
            self.host.sleep(PAUSE).await;
            let mut verbs: FuturesUnordered<Boxed<()>> = {
                let mut book = self.book();
                if book.verbs.is_empty() {
                    book.seen_to = false;
                    return;
                }
                book.verbs.drain(..).collect()
            };
            // Most have been answered by now. Those who come after these do not wait for the others.
            while let Some(Some(())) = verbs.next().now_or_never() {}
            if !verbs.is_empty() {
                let late = self.host.sleep(self.patience);
                self.host.spawn(Box::pin(async move {
                    let answers = pin!(async { while verbs.next().await.is_some() {} });
                    select(answers, late).await;
                }));
            }
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
