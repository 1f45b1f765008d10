//! A folder is one server's own, and is gone with it.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;
use crate::warden::warden;

/// A new folder that only this user can enter.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes a folder that is called after what it is for.
    pub(crate) fn new(name: &str) -> Result<Self> {
        Self::within(warden()?.home(), name)
    }

    /// The same in memory, for a server that waits for its disk at every step: the disk of a busy machine takes seconds.
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
            .map_err(|error| format!("{} cannot be made: {error}.", path.display()))?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in one step: whoever reads it sees all of the old or all of the new.
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
        // What cannot be removed now is removed by the warden, with the folder around it.
        let _ = fs::remove_dir_all(&self.path);
    }
}
