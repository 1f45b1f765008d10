//! The folder of one server, which is removed with the server.

use std::fs;
use std::mem::ManuallyDrop;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;
use crate::warden::warden;

/// A new folder that only this user can enter. Dropping it removes the folder.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates a folder with this name and a number.
    pub(crate) fn new(name: &str) -> Result<Self> {
        Self::within(warden()?.home(), name)
    }

    /// Creates a folder in memory, for a server that flushes every write: the disk of a busy
    /// machine takes seconds for that.
    pub(crate) fn quick(name: &str) -> Result<Self> {
        Self::within(warden()?.quick(), name)
    }

    fn within(home: &Path, name: &str) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = home.join(format!("{name}-{number}"));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| format!("{} cannot be created: {error}.", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path. The folder stays until the warden removes it.
    pub(crate) fn kept(self) -> PathBuf {
        ManuallyDrop::new(self).path.clone()
    }

    /// Replaces a file atomically: a reader sees the old or the new content.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let (file, new) = (self.path.join(name), self.path.join(format!("{name}.new")));
        fs::write(&new, text)
            .and_then(|()| fs::rename(&new, &file))
            .map_err(|error| format!("{} cannot be written: {error}.", file.display()))?;
        Ok(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If this fails, the warden removes the parent folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}
