//! `--as NAME`: a run that was restarted removes the ticket of its dead predecessor, and does not
//! wait for the end of its lease.
//!
//! Each run with a name writes a file with its ticket, and keeps it locked. The keeper and the
//! command inherit the lock. So a run has ended if this machine has its file, no process keeps that
//! locked, and no process has the run's ticket in its environment. A store in files needs none of
//! this: its locks end as these do.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::future::pending;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};
use tenure::guarantees::Liveness;
use tenure::inspect::{LineEntry, TicketId};
use tenure::{Key, Locks};

use crate::failure::{Failure, say, say_if};
use crate::owner::OwnerParts;
use crate::screen::{printable, quoted};
use crate::store::{SETTLE_MAX, state_directory, without_secrets};
use crate::supervisor::keeper::inheritable;
use crate::supervisor::process_tree::ProcessTree;
use crate::supervisor::signals::Signals;

/// The directory of the files, in the user's directory for state.
const DIRECTORY: &str = "tenure-runs";
/// An id of this start of this machine. Machines may share a directory, and their names.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Pause between two looks at the file of a predecessor whose keeper is killing its command.
const PAUSE: Duration = Duration::from_millis(50);

/// The runs of one name with one key of one store.
pub(crate) struct NamedRuns<'a> {
    key: &'a str,
    file: PathBuf,
    quiet: bool,
}

impl<'a> NamedRuns<'a> {
    /// `None`: the store removes the tickets of dead processes itself, this user has no directory
    /// for state, or the system has no boot id, as outside of Linux.
    pub(crate) fn of(
        name: &OsStr,
        key: &'a str,
        url: &str,
        locks: &Locks,
        quiet: bool,
    ) -> Option<Self> {
        if locks.guarantees().liveness == Liveness::Kernel {
            return None;
        }
        fs::metadata(BOOT_ID).ok()?;
        // Later versions find the file by the same name.
        let of_name = format!("{} {}", name.display(), without_secrets(url));
        let file_name = Key::new(key).ok()?.canonical(&of_name);
        Some(Self { key, file: state_directory()?.join(DIRECTORY).join(file_name), quiet })
    }

    /// Removes the tickets of predecessors that have ended from the line.
    pub(crate) fn inherit(
        &self,
        signals: &mut Signals,
        locks: &Locks,
        verbose: bool,
    ) -> Result<(), Failure> {
        let Some(own) = OwnerParts::parse(locks.owner()) else { return Ok(()) };
        let line = match signals.within(SETTLE_MAX, locks.line(self.key))? {
            Ok(Some(Ok(line))) => line,
            // The wait for the lock reports what is wrong with the store.
            Ok(_) => return Ok(()),
            Err(signal) => return Err(Failure::asked(signal)),
        };
        for entry in line.iter().filter(|entry| is_like_a_predecessor(&own, entry)) {
            let (key, owner) = (quoted(self.key), printable(&entry.owner));
            if !self.has_ended(signals, entry)? {
                say_if(!self.quiet, || {
                    format!("{key}: {owner} may still run: its ticket stays until its lease ends")
                });
                continue;
            }
            match signals.within(SETTLE_MAX, locks.force_unlock(self.key, entry.id))? {
                Ok(Some(Ok(_))) => say_if(verbose, || {
                    format!("{key}: the ticket of {owner}, which has ended, is removed")
                }),
                // It ends with its lease.
                Ok(_) => {}
                Err(signal) => return Err(Failure::asked(signal)),
            }
        }
        Ok(())
    }

    /// Writes the file of this run, which holds the lock with this ticket from now on. Later
    /// children inherit it.
    pub(crate) fn begin(&self, ticket: TicketId) -> Option<RunFile> {
        self.write(ticket)
            .inspect_err(|error| {
                let file = self.file.display();
                if !self.quiet {
                    say(&format!("a later run cannot take over: {file} is not written: {error}"));
                }
            })
            .ok()
    }

    /// Writes the file and locks it, before it has its name.
    fn write(&self, ticket: TicketId) -> io::Result<RunFile> {
        let content = content(ticket)?;
        if let Some(directory) = self.file.parent() {
            DirBuilder::new().mode(0o700).recursive(true).create(directory)?;
        }
        let mut unfinished = self.file.clone().into_os_string();
        unfinished.push(format!(".{ticket}"));
        let mut file =
            File::options().write(true).create_new(true).mode(0o600).open(&unfinished)?;
        let locked = file.try_lock().map_err(io::Error::from);
        let written = locked.and_then(|()| file.write_all(content.as_bytes()));
        let inherited = written.and_then(|()| inheritable(&file.into()));
        let named = inherited.and_then(|inherited| {
            fs::rename(&unfinished, &self.file)?;
            Ok(inherited)
        });
        let inherited = named.inspect_err(|_| drop(fs::remove_file(&unfinished)))?;
        Ok(RunFile { _inherited: inherited, path: self.file.clone(), content })
    }

    /// Whether the run with this ticket has ended. Waits for its keeper, which may still be killing
    /// its command. A process that has closed the file is known by its environment, if this user
    /// may read that.
    fn has_ended(&self, signals: &mut Signals, entry: &LineEntry) -> Result<bool, Failure> {
        let ticket = entry.id.to_string();
        let (began, tree) = (Instant::now(), ProcessTree::Marked { group: None, ticket });
        loop {
            let Ok(Some(is_locked)) = self.is_locked(entry.id) else { return Ok(false) };
            if !is_locked && tree.members().is_ok_and(|members| members.is_empty()) {
                return Ok(true);
            }
            if began.elapsed() >= SETTLE_MAX {
                return Ok(false);
            }
            if let Err(signal) = signals.within(PAUSE, pending::<()>())? {
                return Err(Failure::asked(signal));
            }
        }
    }

    /// Whether a process keeps the file of the run with this ticket locked. `None`: the file is of
    /// another run, of another start of a machine, or of another user.
    fn is_locked(&self, ticket: TicketId) -> io::Result<Option<bool>> {
        let file = File::open(&self.file)?;
        let is_own = file.metadata()?.uid() == geteuid().as_raw();
        let is_of_it = is_own && io::read_to_string(&file)? == content(ticket)?;
        Ok(is_of_it.then(|| file.try_lock_shared().is_err()))
    }
}

/// The file of a run that holds the lock. Dropping this removes the file.
pub(crate) struct RunFile {
    _inherited: OwnedFd,
    path: PathBuf,
    content: String,
}

impl Drop for RunFile {
    fn drop(&mut self) {
        // A later run may have replaced it. Without its file, that one is only not taken over.
        if fs::read_to_string(&self.path).is_ok_and(|content| content == self.content) {
            let _ = fs::remove_file(&self.path); // it may be gone
        }
    }
}

/// The content of the file of a run on this machine since its start.
fn content(ticket: TicketId) -> io::Result<String> {
    Ok(format!("{}{ticket}\n", fs::read_to_string(BOOT_ID)?))
}

/// Whether the owner has the same name, user and host name, and no process here has its id.
fn is_like_a_predecessor(own: &OwnerParts, entry: &LineEntry) -> bool {
    let Some(owner) = OwnerParts::parse(&entry.owner) else { return false };
    let is_same =
        (&owner.program, &owner.user, &owner.host) == (&own.program, &own.user, &own.host);
    is_same && (owner.pid == own.pid || is_dead(owner.pid))
}

fn is_dead(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}
