//! Replacements for the parts of Linux on every other system.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{io, thread};

use crate::os::dir::FileId;
use crate::os::{Books, LockOwners, Noise, Show};

/// No id distinguishes one start of the machine from another.
pub(crate) fn boot_id() -> u64 {
    0
}

pub(crate) fn began_us() -> u64 {
    0
}

/// There is no table of locks.
pub(crate) fn owners_of(_id: FileId) -> Option<LockOwners> {
    None
}

/// The kernel reports whether a file system is local.
#[cfg(target_vendor = "apple")]
pub(crate) fn file_system(dir: &Path) -> Option<&'static str> {
    const MNT_LOCAL: u32 = 0x1000;
    let flags = rustix::fs::statfs(dir).ok()?.f_flags;
    (flags & MNT_LOCAL == 0).then_some("a file system that is not local")
}

/// The kind of file system is unknown.
#[cfg(not(target_vendor = "apple"))]
pub(crate) fn file_system(_dir: &Path) -> Option<&'static str> {
    None
}

/// No other system reports that a file was closed.
pub(crate) struct CloseListener;

impl CloseListener {
    pub(crate) fn start(_path: &Path) -> io::Result<(Arc<Self>, i32)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn listen(&self, _path: &Path) -> io::Result<i32> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn stop(&self, _mark: i32) {}

    pub(crate) fn run(&self, _hear: impl Fn(Noise) -> bool) {}
}

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Watchers of events read again a few times a second. It ends when it is dropped.
pub(crate) struct Sight(#[allow(dead_code, reason = "its end ends the thread")] Arc<()>);

impl Sight {
    pub(crate) fn begin(_dir: &Path, show: Show) -> io::Result<Self> {
        let open = Arc::new(());
        let still_open: Weak<()> = Arc::downgrade(&open);
        thread::Builder::new().name("tenure-file-look".to_owned()).spawn(move || {
            while still_open.strong_count() > 0 {
                thread::sleep(LOOK_EVERY);
                show(Books::MAX);
            }
        })?;
        Ok(Self(open))
    }
}
