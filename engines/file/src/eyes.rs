//! Eyes see that a book has changed, whoever changed it.

use std::future::poll_fn;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::{io, thread};

use crate::watchers::lock;

/// A set of books: there are no more than 64.
pub(crate) type Books = u64;

/// Everyone in this process who looks on.
pub(crate) struct Eyes {
    onlookers: Arc<Onlookers>,
    sight: Mutex<Option<sight::Sight>>,
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
            *sight = Some(sight::Sight::begin(dir, self.onlookers.clone())?);
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

/// Linux says which file was written to.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod sight {
    use std::ffi::CStr;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

    use super::{Arc, Books, Onlookers, Path, io, thread};

    pub(super) struct Sight {
        inotify: Arc<OwnedFd>,
        watch: i32,
    }

    impl Sight {
        pub(super) fn begin(dir: &Path, onlookers: Arc<Onlookers>) -> io::Result<Self> {
            let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
            let what = WatchFlags::MODIFY | WatchFlags::MOVED_TO;
            let watch = inotify::add_watch(&*inotify, dir, what)?;
            let source = inotify.clone();
            thread::Builder::new()
                .name("tenure-file-eyes".to_owned())
                .spawn(move || look(&source, &onlookers))?;
            Ok(Self { inotify, watch })
        }
    }

    impl Drop for Sight {
        fn drop(&mut self) {
            // This is itself an event, which ends the thread.
            let _already_gone = inotify::remove_watch(&*self.inotify, self.watch);
        }
    }

    fn look(inotify: &OwnedFd, onlookers: &Onlookers) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    onlookers.show(event.file_name().map_or(Books::MAX, book));
                    if event.events().contains(ReadFlags::IGNORED) {
                        return;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(%error, "changes can no longer be seen");
                    return onlookers.show(Books::MAX);
                }
            }
        }
    }

    fn book(name: &CStr) -> Books {
        let index = name.to_str().ok().and_then(|name| u32::from_str_radix(name, 16).ok());
        index.filter(|index| *index < Books::BITS).map_or(0, |index| 1 << index)
    }
}

/// Elsewhere, onlookers look again a few times a second. Nobody else does.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod sight {
    use std::sync::Weak;
    use std::time::Duration;

    use super::{Arc, Books, Onlookers, Path, io, thread};

    const LOOK_EVERY: Duration = Duration::from_millis(50);

    pub(super) struct Sight(#[allow(dead_code, reason = "its end ends the thread")] Arc<()>);

    impl Sight {
        pub(super) fn begin(_dir: &Path, onlookers: Arc<Onlookers>) -> io::Result<Self> {
            let open = Arc::new(());
            let still_open: Weak<()> = Arc::downgrade(&open);
            thread::Builder::new().name("tenure-file-eyes".to_owned()).spawn(move || {
                while still_open.strong_count() > 0 {
                    thread::sleep(LOOK_EVERY);
                    onlookers.show(Books::MAX);
                }
            })?;
            Ok(Self(open))
        }
    }
}
