//! A session is one engine value: a file that is locked for as long as its process lives.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::log::record::SessionId;
use crate::os::dir::{Dir, FileId, Lifeline, has_name, look_at};
use crate::os::flock::{self, Haste};
use crate::sync::lock;

/// This engine's own session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    dir: Arc<Dir>,
    name: String,
    file: Mutex<Option<File>>,
    file_id: FileId,
    begun: Instant,
    last_look: Mutex<LastLook>,
}

/// When the session's path was looked at last, and what that showed.
#[derive(Clone, Copy)]
struct LastLook {
    at: Duration,
    gone: bool,
}

/// Who joins looks at the session's path again only after this. Heartbeats always look.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

impl Session {
    /// Makes a file with a name that nobody knows, and locks it.
    pub(crate) fn begin(dir: &Arc<Dir>) -> io::Result<Self> {
        loop {
            let id = SessionId(fresh_id()?);
            let name = id.to_string();
            let mut file = dir.create_file(&name)?;
            // Whoever saw it unlocked may have taken it for the rest of a dead one: then again.
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

    /// The process goes on, and this session does not.
    pub(crate) fn end(&self) {
        // To close the file is what others hear.
        if let Some(file) = lock(&self.file).take() {
            // Whoever has a lifeline may close it later, and keeps nothing alive.
            let _closed_as_well = file.unlock();
            remove(&self.dir, self.id);
        }
    }

    /// Another hold on the locked file: the session lives until all of them are closed.
    pub(crate) fn lifeline(&self) -> io::Result<Lifeline> {
        match &*lock(&self.file) {
            Some(file) => Ok(file.try_clone()?.into()),
            None => Err(ErrorKind::NotConnected.into()),
        }
    }

    /// Whether it was ended by this program.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.file).is_none()
    }

    /// Whether everyone takes this session for dead, or cannot find it: its file was removed, or the
    /// store was moved away.
    pub(crate) fn is_gone(&self) -> bool {
        let gone = match std::fs::symlink_metadata(self.dir.path_of(&self.name)) {
            Ok(there) => FileId::of(&there) != self.file_id,
            Err(error) => matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        };
        *lock(&self.last_look) = LastLook { at: self.begun.elapsed(), gone };
        gone
    }

    /// The same at a third of the price, for who joins: a file that was removed shows at once, a store
    /// that was moved away within [`LOOKS_EVERY`], which is sooner than the next heartbeat.
    pub(crate) fn seems_gone(&self) -> bool {
        let last = *lock(&self.last_look);
        if self.begun.elapsed().saturating_sub(last.at) >= LOOKS_EVERY {
            return self.is_gone();
        }
        let has_name = |file: &File| has_name(file).unwrap_or(true);
        last.gone || !lock(&self.file).as_ref().is_some_and(has_name)
    }
}

/// On a full disk a session says nothing of itself, so that who only looks can look.
fn describe(file: &mut File) -> io::Result<()> {
    match file.write_all(description().as_bytes()) {
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            tracing::warn!(%error, "there is no room to write down whose session this is");
            Ok(())
        }
        written => written,
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes the files of a session that is over.
pub(crate) fn remove(dir: &Dir, id: SessionId) {
    let _already_gone = dir.remove(&fifo_name(id));
    let _already_gone = dir.remove(&id.to_string());
}

/// The FIFO by which a session can be told.
pub(crate) fn fifo_name(id: SessionId) -> String {
    format!("{id}.fifo")
}

/// All sessions that have a file.
pub(crate) fn list(dir: &Dir) -> io::Result<Vec<SessionId>> {
    let names = dir.names()?;
    Ok(names.iter().filter_map(|name| name.to_str().and_then(parse)).collect())
}

/// Removes what the dead have left. Says which sessions cannot be looked at, and why.
pub(crate) fn sweep(dir: &Dir) -> io::Result<Vec<(SessionId, io::Error)>> {
    let mut unseen = Vec::new();
    for name in dir.names()? {
        let Some(name) = name.to_str() else { continue };
        if let Some(id) = name.strip_suffix(".fifo") {
            if parse(id).is_some() && dir.look(id).is_ok_and(|file| file.is_none()) {
                let _already_gone = dir.remove(name);
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

/// It stays locked until it is removed: one that has just been made, and is about to be locked by its owner, is then
/// found to be gone by that owner, who makes another one.
fn remove_if_free(dir: &Dir, name: &str, file: &File) {
    if file.try_lock_shared().is_ok() {
        let _already_gone = dir.remove(name);
    }
}

fn parse(name: &str) -> Option<SessionId> {
    let digits = name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    u128::from_str_radix(name, 16).ok().filter(|_| digits).map(SessionId)
}

/// For whoever looks into the directory.
fn description() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    format!("{} {}\n", std::process::id(), Path::new(&program).display())
}

fn fresh_id() -> io::Result<u128> {
    let half = || getrandom::u64().map_err(|error| io::Error::other(error.to_string()));
    Ok(u128::from(half()?) << 64 | u128::from(half()?))
}
