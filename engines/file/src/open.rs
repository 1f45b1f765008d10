//! Opening a store: finding out whether a directory can be one.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use tenure_core::{Error, Result};

use crate::store::Store;
use crate::trouble::refused;
use crate::{Settings, network};

/// The locks of one directory, for the processes of one machine.
///
/// Each value is a session of its own: two of them exclude one another like two processes, even
/// within one. When it is dropped, its tickets are out of their lines.
///
/// A process that was forked without `exec` shares the session of its parent, and must not use it:
/// it would also keep the parent's locks when that dies. Children started with
/// [`std::process::Command`] inherit nothing.
pub struct FileStore {
    pub(crate) store: Arc<Store>,
}

impl FileStore {
    /// Opens the store in this directory; makes it, and the directories above it, if there is none.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, Settings::default())
    }

    /// The same, with settings.
    pub fn open_with(dir: impl AsRef<Path>, settings: Settings) -> Result<Self> {
        let dir = dir.as_ref();
        make_directory(dir)?;
        let dir = fs::canonicalize(dir).map_err(|error| refused("find", dir, error))?;
        if !settings.allow_network {
            refuse_network(&dir)?;
        }
        refuse_used(&dir)?;
        Ok(Self { store: Store::open(&dir)? })
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        self.store.close();
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("dir", &self.store.dir).finish_non_exhaustive()
    }
}

fn make_directory(dir: &Path) -> Result<()> {
    match fs::create_dir_all(dir) {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
            Err(Error::rejected(format!(
                "{} cannot be a store: it, or something above it, is a file and no directory; name a directory",
                dir.display()
            ))
            .caused_by(error))
        }
        Err(error) => Err(refused("make the directory", dir, error)),
    }
}

fn refuse_network(dir: &Path) -> Result<()> {
    match network::file_system(dir) {
        None => Ok(()),
        Some(name) => Err(Error::rejected(format!(
            "{} is on {name}: locks there cannot be trusted. Name a directory on a local disk; or, if all users are on this one machine and you know that its locks hold, allow it with `network=allow`",
            dir.display()
        ))),
    }
}

/// A store has its directory for itself.
fn refuse_used(dir: &Path) -> Result<()> {
    if dir.join("store").exists() {
        return Ok(());
    }
    let failed = |error| refused("look into", dir, error);
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        // Another process may be making the store right now; and a disk's root is as good as empty.
        if !["store", "books", "sessions", "lost+found"].iter().any(|own| name == **own) {
            return Err(Error::rejected(format!(
                "{} is no store, and not empty ({} is in it): name a directory that is new or empty",
                dir.display(),
                Path::new(&name).display()
            )));
        }
    }
    Ok(())
}
