//! On Linux, inotify reports the file that was written to.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::{io, thread};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};

use crate::os::{Books, Show};

/// A watch of the books. It ends when it is dropped.
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
            .name("tenure-file-look".to_owned())
            .spawn(move || look(&source, &show))?;
        Ok(Self { inotify, watch })
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        // This is itself an event, which ends the thread.
        let _ = inotify::remove_watch(&*self.inotify, self.watch); // it may be gone already
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
