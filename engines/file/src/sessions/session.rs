//! A session is one engine value: a file that is locked for as long as its process lives.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;

use crate::log::record::OwnerId;
use crate::os::dir::{Dir, FileId, has_name, look_at};
use crate::os::flock::{self, Haste};

/// This engine's own session.
pub(crate) struct OwnSession {
    pub(crate) id: OwnerId,
    dir: Arc<Dir>,
    name: String,
    file: Mutex<Option<File>>,
    file_id: FileId,
    begun: Instant,
    last_look: Mutex<LastLook>,
}

/// The last look at the session's path, and its result.
#[derive(Clone, Copy)]
struct LastLook {
    at: Duration,
    gone: bool,
}

/// Minimum interval between looks of joins at the session's path. Heartbeats always look.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

impl OwnSession {
    /// Creates a file with a random name, and locks it.
    pub(crate) fn begin(dir: &Arc<Dir>) -> io::Result<Self> {
        loop {
            let id = OwnerId(fresh_id()?);
            let name = id.to_string();
            let mut file = dir.create_file(&name)?;
            // Another process that saw it unlocked may have taken it for a dead one's: retry then.
            if flock::lock(&file, Haste::Quick)? && dir.means(&name, &file)? {
                describe(&mut file)?;
                let file_id = look_at(&file)?.id;
                return Ok(Self {
                    id,
                    dir: dir.clone(),
                    name,
                    file: Mutex::new(Some(file)),
                    file_id,
                    begun: Instant::now(),
                    last_look: Mutex::new(LastLook { at: Duration::ZERO, gone: false }),
                });
            }
        }
    }

    /// Ends the session, while the process goes on.
    pub(crate) fn end(&self) {
        // Others are notified when the file is closed.
        if let Some(file) = self.file.lock().take() {
            // A lifeline may be closed later, and keeps nothing alive.
            let _ = file.unlock(); // the close unlocks it, too
            remove(&self.dir, self.id);
        }
    }

    /// Returns another handle of the locked file: the session lives until all of them are closed.
    pub(crate) fn lifeline(&self) -> io::Result<OwnedFd> {
        match &*self.file.lock() {
            Some(file) => Ok(file.try_clone()?.into()),
            None => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// Returns whether it was ended by this program.
    pub(crate) fn is_over(&self) -> bool {
        self.file.lock().is_none()
    }

    /// Returns whether others take this session for dead, or cannot find it: its file was removed,
    /// or the store was moved away.
    pub(crate) fn is_gone(&self) -> bool {
        let gone = match std::fs::symlink_metadata(self.dir.path_of(&self.name)) {
            Ok(there) => FileId::of(&there) != self.file_id,
            Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        *self.last_look.lock() = LastLook { at: self.begun.elapsed(), gone };
        gone
    }

    /// The same at a third of the cost, for joins. A file that was removed shows at once. A store
    /// that was moved away shows within [`LOOKS_EVERY`], which is sooner than the next heartbeat.
    pub(crate) fn seems_gone(&self) -> bool {
        let last = *self.last_look.lock();
        if self.begun.elapsed().saturating_sub(last.at) >= LOOKS_EVERY {
            return self.is_gone();
        }
        let has_name = |file: &File| has_name(file).unwrap_or(true);
        last.gone || !self.file.lock().as_ref().is_some_and(has_name)
    }
}

/// Writes the description. On a full disk there is none, so that an onlooker can still look.
fn describe(file: &mut File) -> io::Result<()> {
    match file.write_all(description().as_bytes()) {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            tracing::warn!(%error, "there is no room to write down whose session this is");
            Ok(())
        }
        written => written,
    }
}

impl Drop for OwnSession {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes the files of a session that is over.
pub(crate) fn remove(dir: &Dir, id: OwnerId) {
    let _ = dir.remove(&fifo_name(id)); // it may be gone already
    let _ = dir.remove(&id.to_string()); // it may be gone already
}

/// Returns the name of a session's FIFO.
pub(crate) fn fifo_name(id: OwnerId) -> String {
    format!("{id}.fifo")
}

/// Returns all sessions with a file.
pub(crate) fn list(dir: &Dir) -> io::Result<Vec<OwnerId>> {
    let names = dir.names()?;
    Ok(names.iter().filter_map(|name| name.to_str().and_then(parse)).collect())
}

/// Removes the files of dead sessions. Returns the sessions that cannot be looked at, and why.
pub(crate) fn sweep(dir: &Dir) -> io::Result<Vec<(OwnerId, io::Error)>> {
    let mut unseen = Vec::new();
    for name in dir.names()? {
        let Some(name) = name.to_str() else { continue };
        if let Some(id) = name.strip_suffix(".fifo") {
            if parse(id).is_some() && dir.look(id).is_ok_and(|file| file.is_none()) {
                let _ = dir.remove(name); // it may be gone already
            }
            continue;
        }
        let Some(id) = parse(name.trim_end_matches(".new")) else { continue };
        match dir.open_to_read(name) {
            Ok(file) => remove_if_free(dir, name, &file),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => unseen.push((id, error)),
        }
    }
    Ok(unseen)
}

/// The file stays locked until it is removed. If it was just created, its owner then finds that it
/// is gone, and creates another.
fn remove_if_free(dir: &Dir, name: &str, file: &File) {
    if file.try_lock_shared().is_ok() {
        let _ = dir.remove(name); // it may be gone already
    }
}

fn parse(name: &str) -> Option<OwnerId> {
    let digits = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(name, 16).ok().filter(|_| digits).map(OwnerId)
}

/// Returns a description for people that look into the directory.
fn description() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    format!("{} {}\n", std::process::id(), Path::new(&program).display())
}

fn fresh_id() -> io::Result<u128> {
    let half = || getrandom::u64().map_err(|error| io::Error::other(error.to_string()));
    Ok(u128::from(half()?) << 64 | u128::from(half()?))
}
