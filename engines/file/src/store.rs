//! Opening a store, and the check whether a directory can be one.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use tenure_core::{Error, Result};

use crate::os::dir::{Dir, make_private};
use crate::os::file_system;
use crate::settings::Settings;
use crate::trouble::refused;
use crate::visits::mark;
use crate::visits::store::StoreView;

/// The locks of one directory, for the processes of one machine.
///
/// Each value is a session of its own: two of them exclude one another like two processes, even
/// within one. When it is dropped, its tickets are out of their lines.
///
/// A process that was forked without `exec` shares the session of its parent, and must not use it:
/// it would also keep the parent's locks when that dies. Children started with
/// [`std::process::Command`] inherit nothing.
pub struct FileStore {
    pub(crate) store: Arc<StoreView>,
}

impl FileStore {
    /// Opens the store in this directory; makes it, and the directories above it, if there is none.
    ///
    /// A new directory is for this user alone. All users that may write to an existing one may use
    /// the store.
    ///
    /// # Errors
    ///
    /// `Rejected` if the directory cannot be a store.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(dir, Settings::default())
    }

    /// The same, with settings.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_with(dir: impl AsRef<Path>, settings: Settings) -> Result<Self> {
        let dir = dir.as_ref();
        make_directory(dir)?;
        let dir = fs::canonicalize(dir).map_err(|error| refused("find", dir, error))?;
        if !settings.allow_network {
            refuse_network(&dir)?;
        }
        let dir = Dir::open(&dir).map_err(|error| refused("open", &dir, error))?;
        if !settings.allow_others {
            refuse_others(&dir)?;
        }
        refuse_used(&dir)?;
        Ok(Self { store: StoreView::open(dir)? })
    }

    /// Opens the store in this directory if there is one; makes nothing.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn open_existing(dir: impl AsRef<Path>, settings: Settings) -> Result<Option<Self>> {
        let dir = dir.as_ref();
        match fs::symlink_metadata(dir.join("store")) {
            Err(error) if error.kind() == ErrorKind::NotFound => match Dir::open(dir) {
                Ok(dir) => refuse_used(&dir).map(|()| None),
                Err(_) => Ok(None),
            },
            // `open_with` reports all other problems.
            _ => Self::open_with(dir, settings).map(Some),
        }
    }

    /// Returns a lifeline of this session: if its process dies, its tickets stay in their lines as
    /// long as another process has this open. It is for a process that first ends the work under
    /// them.
    ///
    /// A session that ends by a drop of its value also ends for the owner of a lifeline.
    ///
    /// # Errors
    ///
    /// `Rejected` if the session is over, or its file's handle cannot be duplicated.
    pub fn lifeline(&self) -> Result<OwnedFd> {
        let failed =
            |error| refused("duplicate the session of", self.store.context.root.path(), error);
        self.store.context.session.lifeline().map_err(failed)
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        self.store.close();
    }
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore")
            .field("dir", &self.store.context.root.path())
            .finish_non_exhaustive()
    }
}

fn make_directory(dir: &Path) -> Result<()> {
    let above = dir.parent().filter(|above| !above.as_os_str().is_empty());
    let made = above.map_or(Ok(()), fs::create_dir_all);
    let made = made.and_then(|()| match make_private(dir) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        made => made,
    });
    match made {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => {
            Err(Error::rejected(format!(
                "{} cannot be a store: it, or something above it, is a file and no directory; name a directory",
                dir.display()
            ))
            .caused_by(error))
        }
        Err(error) => match dir.ancestors().skip(1).find(|above| above.is_dir()) {
            // Missing directories above a store are made, unless the file system lets no user make
            // directories.
            Some(above) if error.kind() == ErrorKind::NotFound => Err(Error::rejected(format!(
                "{} cannot be a store: no directory can be made in {}; name one elsewhere",
                dir.display(),
                above.display()
            ))
            .caused_by(error)),
            _ => Err(refused("make the directory", dir, error)),
        },
    }
}

fn refuse_network(dir: &Path) -> Result<()> {
    match file_system(dir) {
        None => Ok(()),
        Some(name) => Err(Error::rejected(format!(
            "{} is on {name}: locks there cannot be trusted. Name a directory on a local disk; or, if all users are on this one machine and you know that its locks hold, allow it with `network=allow`",
            dir.display()
        ))),
    }
}

/// Refuses a directory of another user. The owner of a directory can take any lock in it, and a
/// user that may write to it can hold up all.
fn refuse_others(dir: &Dir) -> Result<()> {
    let failed = |error| refused("look at", dir.path(), error);
    let path = dir.path().display();
    if let Some(user) = dir.stranger().map_err(failed)? {
        return Err(Error::rejected(format!(
            "{path} belongs to another user ({user}), who can take any lock in it: use a directory of your own, or one of root's that a group may write to (chown root:GROUP, chmod 2770); or trust that user, with `others=allow`"
        )));
    }
    if dir.is_open_to_all().map_err(failed)? {
        return Err(Error::rejected(format!(
            "{path} can be written to by everybody, who could take or block any lock in it: use a directory of your own, or take that right away (chmod o-w), or trust everybody, with `others=allow`"
        )));
    }
    Ok(())
}

/// Refuses a directory with other files: a store needs it for itself.
fn refuse_used(dir: &Dir) -> Result<()> {
    let failed = |error| refused("look into", dir.path(), error);
    if dir.look(mark::NAME).map_err(failed)?.is_some() {
        return Ok(());
    }
    for name in dir.names().map_err(failed)? {
        // Another process may be making the store right now. The root of a disk counts as empty.
        if !["store", "books", "sessions", "lost+found"].iter().any(|own| name == **own) {
            return Err(Error::rejected(format!(
                "{} is no store, and not empty ({} is in it): name a directory that is new or empty",
                dir.path().display(),
                Path::new(&name).display()
            )));
        }
    }
    Ok(())
}
