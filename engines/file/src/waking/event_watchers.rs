//! Watchers of events are notified when any process changes a book.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tenure_core::sync::Mutex;

use crate::os::{Books, Sight};
use crate::waking::wake;

/// The watchers of events in this process.
pub(crate) struct EventWatchers {
    list: Arc<List>,
    sight: Mutex<Option<Sight>>,
}

#[derive(Default)]
struct List(Mutex<Vec<Arc<Mutex<Changes>>>>);

#[derive(Default)]
struct Changes {
    wanted: Books,
    changed: Books,
    waker: Option<Waker>,
}

/// A watcher of events. Dropping it leaves nothing behind.
pub(crate) struct EventWatcher {
    list: Arc<List>,
    seen: Arc<Mutex<Changes>>,
}

impl EventWatchers {
    pub(crate) fn new() -> Self {
        Self { list: Arc::default(), sight: Mutex::default() }
    }

    /// Subscribes to every change of these books.
    pub(crate) fn open(&self, dir: &Path, wanted: Books) -> io::Result<EventWatcher> {
        let mut sight = self.sight.lock();
        if sight.is_none() {
            let list = self.list.clone();
            let show = Box::new(move |changed| list.show(changed));
            *sight = Some(Sight::begin(dir, show)?);
        }
        let seen = Arc::new(Mutex::new(Changes { wanted, ..Changes::default() }));
        self.list.0.lock().push(seen.clone());
        Ok(EventWatcher { list: self.list.clone(), seen })
    }

    /// Ends the watching thread.
    pub(crate) fn close(&self) {
        self.sight.lock().take();
    }
}

impl EventWatcher {
    /// Waits until books change, and returns them.
    pub(crate) async fn changes(&self) -> Books {
        poll_fn(|context| {
            let mut seen = self.seen.lock();
            match std::mem::take(&mut seen.changed) {
                0 => {
                    seen.waker = Some(context.waker().clone());
                    Poll::Pending
                }
                changed => Poll::Ready(changed),
            }
        })
        .await
    }
}

impl Drop for EventWatcher {
    fn drop(&mut self) {
        self.list.0.lock().retain(|seen| !Arc::ptr_eq(seen, &self.seen));
    }
}

impl List {
    fn show(&self, changed: Books) {
        let mut wakers = Vec::new();
        for seen in self.0.lock().iter() {
            let mut seen = seen.lock();
            seen.changed |= changed & seen.wanted;
            if seen.changed != 0 {
                wakers.extend(seen.waker.take());
            }
        }
        wakers.into_iter().for_each(wake);
    }
}
