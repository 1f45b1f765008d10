//! A watcher waits for news of one ticket, on any executor.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use tenure_core::sync::Mutex;
use tenure_core::{TicketId, Wake};

use crate::waking;

/// The watchers of this process.
#[derive(Default)]
pub(crate) struct Watchers {
    count: AtomicUsize,
    cells: Mutex<HashMap<TicketId, Vec<Arc<Cell>>>>,
}

#[derive(Default)]
struct Cell(Mutex<Told>);

#[derive(Default)]
struct Told {
    wake: Option<Wake>,
    waker: Option<Waker>,
}

/// A watcher. Dropping it leaves nothing behind.
pub(crate) struct Watcher<'a> {
    watchers: &'a Watchers,
    id: TicketId,
    cell: Arc<Cell>,
}

impl Watchers {
    /// Registers a watcher for news of this ticket.
    pub(crate) fn register(&self, id: TicketId) -> Watcher<'_> {
        let cell = Arc::<Cell>::default();
        self.cells.lock().entry(id).or_default().push(cell.clone());
        self.count.fetch_add(1, Ordering::SeqCst);
        Watcher { watchers: self, id, cell }
    }

    /// Returns whether there are watchers. A watcher that registers and then visits a book is seen
    /// by every later visit.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn notify(&self, id: TicketId, wake: Wake) {
        // A waker may do anything, so no lock is held when it is called.
        let cells = self.cells.lock().get(&id).cloned().unwrap_or_default();
        for cell in cells {
            cell.put(wake);
        }
    }

    /// Makes all watchers look: events may be missing.
    pub(crate) fn notify_all(&self) {
        let cells: Vec<_> = self.cells.lock().values().flatten().cloned().collect();
        for cell in cells {
            cell.put(Wake::Look);
        }
    }
}

impl Watcher<'_> {
    /// Waits for news.
    pub(crate) async fn news(&self) -> Wake {
        poll_fn(|context| {
            let mut told = self.cell.0.lock();
            if let Some(wake) = told.wake.take() {
                return Poll::Ready(wake);
            }
            told.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Drop for Watcher<'_> {
    fn drop(&mut self) {
        let mut cells = self.watchers.cells.lock();
        if let Some(own) = cells.get_mut(&self.id) {
            own.retain(|cell| !Arc::ptr_eq(cell, &self.cell));
            if own.is_empty() {
                cells.remove(&self.id);
            }
        }
        self.watchers.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Cell {
    fn put(&self, wake: Wake) {
        let mut told = self.0.lock();
        // A ticket that is out is not served, in any order of the news.
        if told.wake != Some(Wake::Look) {
            told.wake = Some(wake);
        }
        if let Some(waker) = told.waker.take() {
            drop(told);
            waking::wake(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake as Wakes};

    use super::*;

    struct Panics;

    impl Wakes for Panics {
        fn wake(self: Arc<Self>) {
            panic!("an executor may panic")
        }
    }

    #[test]
    fn a_waker_that_panics_keeps_nobody_else_from_being_woken() {
        let watchers = Watchers::default();
        let ids = [TicketId::fresh(), TicketId::fresh(), TicketId::fresh()];
        let registered = ids.map(|id| watchers.register(id));
        let panics = Waker::from(Arc::new(Panics));
        for watcher in &registered {
            let news = pin!(watcher.news());
            assert!(news.poll(&mut Context::from_waker(&panics)).is_pending());
        }
        watchers.notify_all();
        for watcher in &registered {
            let news = pin!(watcher.news());
            assert!(news.poll(&mut Context::from_waker(Waker::noop())).is_ready());
        }
    }
}
