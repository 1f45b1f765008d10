//! A session is one engine value: a file that is locked for as long as its process lives.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::record::SessionId;

/// This engine's own session.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    file: File,
    dir: PathBuf,
}

impl Session {
    /// Nobody sees the file before it is locked: it gets its name only then.
    pub(crate) fn begin(dir: &Path) -> io::Result<Self> {
        loop {
            let id = SessionId(fresh_id()?);
            let unnamed = dir.join(format!("{id}.new"));
            let mut file =
                File::options().read(true).write(true).create_new(true).open(&unnamed)?;
            file.write_all(description().as_bytes())?;
            file.lock()?;
            match fs::rename(&unnamed, path(dir, id)) {
                Ok(()) => return Ok(Self { id, file, dir: dir.to_owned() }),
                // Somebody saw it unlocked and took it for the rest of a dead one: again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The process goes on, and this session does not.
    pub(crate) fn end(&self) {
        remove(&self.dir, self.id);
        let _it_is_closed_soon = self.file.unlock();
    }

    /// Whether somebody has removed the file, so that everyone takes this session for dead.
    pub(crate) fn is_gone(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink == 0)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end();
    }
}

/// Removes the files of a session that is over.
pub(crate) fn remove(dir: &Path, id: SessionId) {
    let _already_gone = fs::remove_file(bell_path(dir, id));
    let _already_gone = fs::remove_file(path(dir, id));
}

/// The file that a session keeps locked.
pub(crate) fn path(dir: &Path, id: SessionId) -> PathBuf {
    dir.join(id.to_string())
}

/// Where a session can be rung.
pub(crate) fn bell_path(dir: &Path, id: SessionId) -> PathBuf {
    dir.join(format!("{id}.bell"))
}

/// All sessions that have a file.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<SessionId>> {
    let mut sessions = Vec::new();
    for entry in fs::read_dir(dir)? {
        if let Some(id) = entry?.file_name().to_str().and_then(parse) {
            sessions.push(id);
        }
    }
    Ok(sessions)
}

/// Removes what the dead have left.
pub(crate) fn sweep(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let dead = match name.strip_suffix(".bell") {
            Some(id) => parse(id).is_some_and(|id| !path(dir, id).exists()),
            None if parse(name.trim_end_matches(".new")).is_some() => is_free(&entry.path()),
            None => false,
        };
        if dead {
            let _already_gone = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

fn is_free(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok())
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
