//! Eyes see that a book has changed, whoever changed it.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use crate::os::sight::{Books, Sight};
use crate::sync::lock;

/// Everyone in this process who looks on.
pub(crate) struct Eyes {
    onlookers: Arc<Onlookers>,
    sight: Mutex<Option<Sight>>,
}

#[derive(Default)]
struct Onlookers(Mutex<Vec<Arc<Mutex<Seen>>>>);

#[derive(Default)]
struct Seen {
    wanted: Books,
    changed: Books,
    waker: Option<Waker>,
}

/// One who looks on. Dropping it leaves nothing behind.
pub(crate) struct Onlooker {
    onlookers: Arc<Onlookers>,
    seen: Arc<Mutex<Seen>>,
}

impl Eyes {
    pub(crate) fn new() -> Self {
        Self { onlookers: Arc::default(), sight: Mutex::default() }
    }

    /// From now on, every change of these books is seen.
    pub(crate) fn open(&self, dir: &Path, wanted: Books) -> io::Result<Onlooker> {
        let mut sight = lock(&self.sight);
        if sight.is_none() {
            let onlookers = self.onlookers.clone();
            let show = Box::new(move |changed| onlookers.show(changed));
            *sight = Some(Sight::begin(dir, show)?);
        }
        let seen = Arc::new(Mutex::new(Seen { wanted, ..Seen::default() }));
        lock(&self.onlookers.0).push(seen.clone());
        Ok(Onlooker { onlookers: self.onlookers.clone(), seen })
    }

    /// Lets the thread that looks end.
    pub(crate) fn close(&self) {
        lock(&self.sight).take();
    }
}

impl Onlooker {
    /// The books that changed, once any did.
    pub(crate) async fn changes(&self) -> Books {
        poll_fn(|context| {
            let mut seen = lock(&self.seen);
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

impl Drop for Onlooker {
    fn drop(&mut self) {
        lock(&self.onlookers.0).retain(|seen| !Arc::ptr_eq(seen, &self.seen));
    }
}

impl Onlookers {
    fn show(&self, changed: Books) {
        let mut wakers = Vec::new();
        for seen in lock(&self.0).iter() {
            let mut seen = lock(seen);
            seen.changed |= changed & seen.wanted;
            if seen.changed != 0 {
                wakers.extend(seen.waker.take());
            }
        }
        // A waker may do anything, so nothing is locked when it is called.
        wakers.into_iter().for_each(Waker::wake);
    }
}
