//! The kernel reports when a file is closed, at any death of its process.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::os::Noise;

/// The listener of a process. A thread calls [`run`](CloseListener::run).
pub(crate) struct CloseListener(OwnedFd);

impl CloseListener {
    /// Starts with a first file, and returns its mark. Without a file it would never end.
    pub(crate) fn start(path: &Path) -> io::Result<(Arc<Self>, i32)> {
        let listener = Arc::new(Self(inotify::init(CreateFlags::CLOEXEC)?));
        let mark = listener.listen(path)?;
        Ok((listener, mark))
    }

    /// Watches a file, and returns its mark.
    pub(crate) fn listen(&self, path: &Path) -> io::Result<i32> {
        let what = WatchFlags::CLOSE_WRITE | WatchFlags::DONT_FOLLOW;
        Ok(inotify::add_watch(&self.0, path, what)?)
    }

    /// Ends a watch, which is itself an event.
    pub(crate) fn stop(&self, mark: i32) {
        let _ = inotify::remove_watch(&self.0, mark); // it may be gone already
    }

    /// Passes all events to `hear`, until that returns that there is no watch any more.
    pub(crate) fn run(&self, hear: impl Fn(Noise) -> bool) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        loop {
            let noise = match events.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => Noise::Missed,
                Ok(event) if event.events().contains(ReadFlags::IGNORED) => Noise::Over(event.wd()),
                Ok(event) => Noise::Closed(event.wd()),
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => {
                    tracing::warn!(%error, "the deaths of others can no longer be heard");
                    Noise::Deaf
                }
            };
            if !hear(noise) || noise == Noise::Deaf {
                return;
            }
        }
    }
}
