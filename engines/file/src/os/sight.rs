//! Seeing that a book has changed, whoever changed it.

use std::{io, thread};

/// A set of books: there are no more than 64.
pub(crate) type Books = u64;

/// Shows what has changed.
pub(crate) type Show = Box<dyn Fn(Books) + Send>;

pub(crate) use system::Sight;

/// Linux says which file was written to.
#[cfg(any(target_os = "linux", target_os = "android"))]
mod system {
    use std::ffi::CStr;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::Arc;

    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

    use super::{Books, Show, io, thread};

    /// It ends when it is dropped.
    pub(crate) struct Sight {
        inotify: Arc<OwnedFd>,
        watch: i32,
    }

    impl Sight {
        pub(crate) fn begin(dir: &Path, show: Show) -> io::Result<Self> {
            let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
            let what = WatchFlags::MODIFY | WatchFlags::MOVED_TO;
            let watch = inotify::add_watch(&*inotify, dir, what)?;
            let source = inotify.clone();
            thread::Builder::new()
                .name("tenure-file-eyes".to_owned())
                .spawn(move || look(&source, &show))?;
            Ok(Self { inotify, watch })
        }
    }

    impl Drop for Sight {
        fn drop(&mut self) {
            // This is itself an event, which ends the thread.
            let _already_gone = inotify::remove_watch(&*self.inotify, self.watch);
        }
    }

    fn look(inotify: &OwnedFd, show: &Show) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify, &mut buffer);
        loop {
            match events.next() {
                Ok(event) => {
                    show(event.file_name().map_or(Books::MAX, book));
                    if event.events().contains(ReadFlags::IGNORED) {
                        return;
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!(%error, "changes can no longer be seen");
                    return show(Books::MAX);
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
mod system {
    use std::path::Path;
    use std::sync::{Arc, Weak};
    use std::time::Duration;

    use super::{Books, Show, io, thread};

    const LOOK_EVERY: Duration = Duration::from_millis(50);

    /// It ends when it is dropped.
    pub(crate) struct Sight(#[allow(dead_code, reason = "its end ends the thread")] Arc<()>);

    impl Sight {
        pub(crate) fn begin(_dir: &Path, show: Show) -> io::Result<Self> {
            let open = Arc::new(());
            let still_open: Weak<()> = Arc::downgrade(&open);
            thread::Builder::new().name("tenure-file-eyes".to_owned()).spawn(move || {
                while still_open.strong_count() > 0 {
                    thread::sleep(LOOK_EVERY);
                    show(Books::MAX);
                }
            })?;
            Ok(Self(open))
        }
    }
}
