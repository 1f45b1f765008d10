//! The directory of a user's claims: for each claim a record and the socket of its claim holder.
//!
//! It lies in the user's directory for state, and not in `$XDG_RUNTIME_DIR`: that one differs
//! between the sessions of a user and is removed at the last log-out, and a claim that is not found
//! would count as lost.
//!
//! This process enters the directory, so that the paths of sockets are short: the kernel limits
//! them to about 100 bytes.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Mode, OFlags};
use rustix::process::{fchdir, geteuid};

use super::question::Question;
use super::{ClaimRecord, json_line, machine};
use crate::failure::{Failure, REFUSED, USAGE};
use crate::screen::printable;
use crate::store::state_directory;

const NAME: &str = "tenure-claims";
const RECORD: &str = "claim";
const SOCKET: &str = "socket";
/// The ending of a record that is being written.
const UNFINISHED: &str = "new";

/// The files of a claim whose holder has ended are kept for this time.
const ENDED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// The same for claims of another machine that shares the directory.
const FOREIGN_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Number of records that are kept in any case.
const RECORDS_MAX: usize = 200;

/// The directory of the user's claims, which is the current directory of this process.
pub(crate) struct ClaimDirectory {
    path: PathBuf,
}

impl ClaimDirectory {
    /// Enters the directory, and creates it if it does not exist.
    pub(crate) fn make() -> Result<Self, Failure> {
        let path = path()?;
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&path);
        made.map_err(|error| refused(&path, &error.to_string()))?;
        Self::enter_at(path)
    }

    /// Enters the directory. `None`: there is none, because the user has taken no claim yet.
    pub(crate) fn enter() -> Result<Option<Self>, Failure> {
        let path = path()?;
        if path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return Ok(None);
        }
        Self::enter_at(path).map(Some)
    }

    /// Refuses a directory that another user could change.
    fn enter_at(path: PathBuf) -> Result<Self, Failure> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty()).map(File::from);
        let directory = opened.map_err(|error| refused(&path, &error.to_string()))?;
        let facts = directory.metadata()?;
        if facts.uid() != geteuid().as_raw() {
            let why = format!("belongs to another user ({}): remove it", facts.uid());
            return Err(refused(&path, &why));
        }
        if facts.mode() & 0o077 != 0 {
            return Err(refused(&path, "is open to other users: make it private with chmod 700"));
        }
        fchdir(&directory).map_err(io::Error::from)?;
        Ok(Self { path })
    }

    /// The path of a claim's socket, relative to the current directory.
    pub(crate) fn socket(id: &str) -> PathBuf {
        format!("{id}.{SOCKET}").into()
    }

    fn file(&self, id: &str, ending: &str) -> PathBuf {
        self.path.join(format!("{id}.{ending}"))
    }

    /// Returns the record of a claim. `None`: there is none, or it cannot be read.
    pub(crate) fn record(&self, id: &str) -> Option<ClaimRecord> {
        serde_json::from_slice(&fs::read(self.file(id, RECORD)).ok()?).ok()
    }

    /// Writes the record of a claim, in one step.
    pub(crate) fn write(&self, record: &ClaimRecord) -> io::Result<()> {
        let id = &record.claim.claim;
        write_private(&self.file(id, RECORD), &self.file(id, UNFINISHED), &json_line(record))
    }

    /// Removes the files of a claim.
    pub(crate) fn forget(&self, id: &str) {
        for ending in [SOCKET, UNFINISHED, RECORD] {
            let _ = fs::remove_file(self.file(id, ending)); // it may be gone; a later `take` tries again
        }
    }

    /// Removes the socket of a claim, and keeps its record.
    pub(crate) fn forget_socket(&self, id: &str) {
        let _ = fs::remove_file(self.file(id, SOCKET)); // it may be gone; a later `take` tries again
    }

    /// Returns the ids of all claims with a record.
    pub(crate) fn ids(&self) -> io::Result<Vec<String>> {
        let files = self.files()?;
        Ok(files.into_iter().filter(|file| file.is_record).map(|file| file.id).collect())
    }

    /// Removes old files of claims whose holders have ended.
    pub(crate) fn tidy(&self) -> io::Result<()> {
        let mut files = self.files()?;
        files.sort_by_key(|file| file.age);
        let mut records = 0;
        for file in files {
            records += usize::from(file.is_record);
            if file.age < ENDED_KEPT && records <= RECORDS_MAX {
                continue;
            }
            let is_foreign =
                self.record(&file.id).is_some_and(|record| record.machine != machine());
            let is_over = !is_foreign || file.age >= FOREIGN_KEPT;
            if is_over && !Question::has_listener(&file.id) {
                self.forget(&file.id);
            }
        }
        Ok(())
    }

    fn files(&self) -> io::Result<Vec<ClaimFile>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let path = PathBuf::from(entry.file_name());
            let of = path.file_stem().and_then(OsStr::to_str);
            let ending = path.extension().and_then(OsStr::to_str);
            // Another process may just have removed the file.
            let (Some(id), Some(ending), Ok(facts)) = (of, ending, entry.metadata()) else {
                continue;
            };
            if ![RECORD, SOCKET, UNFINISHED].contains(&ending) {
                continue;
            }
            let changed = facts.modified()?;
            let age = SystemTime::now().duration_since(changed).unwrap_or_default();
            files.push(ClaimFile { id: id.to_owned(), is_record: ending == RECORD, age });
        }
        Ok(files)
    }
}

/// A file of a claim.
struct ClaimFile {
    id: String,
    is_record: bool,
    age: Duration,
}

fn path() -> Result<PathBuf, Failure> {
    state_directory().map(|state| state.join(NAME)).ok_or_else(|| {
        Failure::new(USAGE, "there is no home directory for claims: set XDG_STATE_HOME".to_owned())
    })
}

fn refused(path: &Path, why: &str) -> Failure {
    let path = printable(&path.to_string_lossy()).into_owned();
    Failure::new(REFUSED, format!("the directory of your claims, {path}, {why}"))
}

/// Writes a file that only its owner can read: first under the name `unfinished`, so that a reader
/// sees all of it or none.
pub(crate) fn write_private(path: &Path, unfinished: &Path, text: &str) -> io::Result<()> {
    let _ = fs::remove_file(unfinished); // it is there only after a crash
    let written = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(unfinished)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(unfinished, path));
    if written.is_err() {
        let _ = fs::remove_file(unfinished); // the first error is the one to report
    }
    written
}
