//! The claim holder: the process that takes the locks of a claim and holds them.
//!
//! `tenure take` starts it and waits for one of its messages: `held` with the claim, or `failed`
//! with an exit code. It answers `kept` once it has handed the claim to its caller. Until then the
//! channel's end releases everything: a claim that no caller knows would stay for long.
//!
//! The process has a session of its own and none of its caller's files, so that `$(tenure take k)`
//! ends. Only standard error stays until the locks are held, for the progress of the wait.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tenure::inspect::TicketId;
use tenure::{Locks, Loss};

use super::directory::ClaimDirectory;
use super::followed::{Followed, ProcessWatch};
use super::held_claim::HeldClaim;
use super::{ClaimRecord, ClaimedKey, TakenClaim, json_line, machine};
use crate::acquisition::{Acquisition, HeldLock, LockMode, LocksBeside};
use crate::failure::{BUSY, Failure, REFUSED, say};
use crate::owner::CLAIM_HOLDER;
use crate::retry_budget::RetryBudget;
use crate::run::open;
use crate::screen::quoted;
use crate::store::{Address, close, without_secrets};
use crate::supervisor::control_channel::ControlChannel;
use crate::supervisor::nested;
use crate::supervisor::own_executable;
use crate::supervisor::signals::Signals;

/// The first argument that makes this program a claim holder.
pub(crate) const ARGUMENT: &str = "--hold-claim";
/// The first descriptor after standard input, output and error.
const STDIO_END: i32 = 3;

/// The words on the channel.
pub(super) const HELD: &[u8] = b"held";
pub(super) const FAILED: &[u8] = b"failed";
pub(super) const KEPT: &[u8] = b"kept";

/// The request that a claim holder gets. It goes over the channel, because other users can read
/// the arguments of a process, and a URL may contain a password.
#[derive(Serialize, Deserialize)]
pub(super) struct ClaimTask {
    pub(super) on: Option<String>,
    pub(super) quiet: bool,
    pub(super) make: bool,
    /// The keys in the order in which they are locked; the second field is true for shared mode.
    pub(super) keys: Vec<(String, bool)>,
    pub(super) wait: Option<Duration>,
    pub(super) note: Option<String>,
    /// The process with which the claim ends.
    pub(super) followed: Option<Followed>,
    /// The time within which the claim must be renewed.
    pub(super) ttl: Option<Duration>,
}

/// Returns the command that starts a claim holder with its end of the channel.
pub(super) fn command(channel: OwnedFd) -> io::Result<Command> {
    let mut command = own_executable()?;
    command.arg0(CLAIM_HOLDER).arg(ARGUMENT).stdin(Stdio::from(channel)).stdout(Stdio::null());
    Ok(command)
}

/// Runs `--hold-claim`, with the channel as standard input.
pub(crate) fn main() -> ExitCode {
    close_inherited();
    let (channel, task) = match begin() {
        Ok(Some(start)) => start,
        // The caller is gone.
        Ok(None) => return ExitCode::SUCCESS,
        Err(failure) => return failure.report(),
    };
    let Err(failure) = hold(&channel, &task) else { return ExitCode::SUCCESS };
    let code = failure.code().to_string();
    let exit = failure.report();
    let _ = channel.hand_over(&[FAILED, code.as_bytes()], &[]); // the caller may be gone
    exit
}

/// Closes the files that other programs have passed on through `tenure`: a reader of such a pipe
/// would wait for the end of the claim.
fn close_inherited() {
    let files = fs::read_dir(if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" });
    // Without such a directory, the files stay open: a claim is worth more.
    let names = files.into_iter().flatten().flatten().map(|file| file.file_name());
    let files: Vec<i32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    for file in files.into_iter().filter(|file| *file >= STDIO_END) {
        // This process has opened nothing yet. The directory itself is closed already.
        let _ = nix::unistd::close(file);
    }
}

/// Leaves the caller's session, and waits for the task. `None`: the caller is gone.
fn begin() -> Result<Option<(ControlChannel, ClaimTask)>, Failure> {
    let _ = rustix::process::setsid(); // it fails only for the leader of a group, which it is not
    name();
    let channel = ControlChannel::of_keeper()?;
    rustix::stdio::dup2_stdin(null()?).map_err(io::Error::from)?;
    let Some((parts, _)) = channel.take_over()? else { return Ok(None) };
    let task = parts.first().and_then(|part| serde_json::from_slice(part).ok());
    let task = task.ok_or_else(|| Failure::new(REFUSED, "the claim holder got no valid task"))?;
    Ok(Some((channel, task)))
}

fn null() -> io::Result<fs::File> {
    fs::File::options().read(true).write(true).open("/dev/null")
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn name() {
    let name = std::ffi::CString::new(CLAIM_HOLDER).expect("the name has no NUL");
    let _ = rustix::thread::set_name(&name); // without it, `ps -C` shows the executable's name
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn name() {}

/// Takes the locks, hands the claim to the caller, and keeps it until it ends.
fn hold(channel: &ControlChannel, task: &ClaimTask) -> Result<(), Failure> {
    let mut signals = Signals::install()?;
    let followed = task.followed.map(Followed::watch).transpose()?;
    signals.hang_up_on(channel)?;
    if let Some(file) = followed.as_ref().and_then(ProcessWatch::file) {
        signals.hang_up_on(file)?;
    }
    let at = Address {
        on: task.on.clone(),
        quiet: task.quiet,
        make: task.make,
        program: Some(CLAIM_HOLDER.into()),
    };
    let budget = RetryBudget::new(task.wait, task.quiet);
    // It settles relative paths, so it comes before this process enters a directory.
    let url = at.url()?;
    let directory = ClaimDirectory::make()?;
    directory.tidy()?;
    let opened = open(&at, &url, &budget, &mut signals)?;
    let taken = task.take(&budget, &mut signals, &opened.locks);
    signals.hang_up_on_nothing();
    let outcome = taken.and_then(|locks| {
        let record = task.record(&locks, &url);
        let claim = present(channel, directory, record, &mut signals, locks, followed)?;
        if let Some(claim) = claim {
            claim.keep(&mut signals)?;
        }
        Ok(0)
    });
    close(&mut signals, &opened.locks, &outcome);
    outcome.map(drop)
}

impl ClaimTask {
    /// Takes all locks. Begins again if one of them expires while the next one is waited for.
    fn take(
        &self,
        budget: &RetryBudget,
        signals: &mut Signals,
        locks: &Locks,
    ) -> Result<Vec<HeldLock>, Failure> {
        loop {
            if let Some(held) = self.take_each(budget, signals, locks)? {
                return Ok(held);
            }
        }
    }

    /// Takes one lock after the other. `None`: one has expired meanwhile, and all were released.
    fn take_each(
        &self,
        budget: &RetryBudget,
        signals: &mut Signals,
        locks: &Locks,
    ) -> Result<Option<Vec<HeldLock>>, Failure> {
        let (mut held, beside) = (Vec::new(), LocksBeside::default());
        for (key, is_shared) in &self.keys {
            let mode = if *is_shared { LockMode::Shared } else { LockMode::Exclusive };
            let note = self.note.as_deref();
            let acquisition =
                Acquisition { key, mode, ttl: None, budget: *budget, note, beside: Some(&beside) };
            acquisition.check()?;
            if budget.left() != Some(Duration::ZERO) {
                nested::refuse(signals, locks, key, mode.share()?)?;
            }
            match budget.outlast(signals, |signals| acquisition.acquire(signals, locks)) {
                Ok(lock) => {
                    beside.add(&lock);
                    held.push(lock);
                }
                Err(failure) => return again_if_lost(&held, budget, failure),
            }
        }
        // The last lock may have been waited for until the first one was lost.
        let lost = || Failure::new(BUSY, "a lock was lost while others were taken");
        if held.iter().any(|lock| lock.check().is_err()) {
            return again_if_lost(&held, budget, lost());
        }
        Ok(Some(held))
    }

    fn record(&self, locks: &[HeldLock], url: &str) -> ClaimRecord {
        let keys = locks.iter().map(|lock| ClaimedKey {
            key: lock.key().as_str().to_owned(),
            id: lock.id().to_string(),
            token: lock.number(),
            kind: lock.share().kind().to_owned(),
        });
        let claim = TakenClaim {
            claim: TicketId::fresh().to_string(),
            keys: keys.collect(),
            pid: std::process::id(),
            on: without_secrets(url),
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ClaimRecord {
            claim,
            machine: machine(),
            since_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            while_pid: self.followed.map(Followed::pid),
            ttl: self.ttl,
            lost: None,
        }
    }
}

/// After a failure: returns `None` if all locks can be taken again, because one of them has expired
/// and time is left. A broken lock was meant to be given up.
fn again_if_lost(
    held: &[HeldLock],
    budget: &RetryBudget,
    failure: Failure,
) -> Result<Option<Vec<HeldLock>>, Failure> {
    let lost = |lock: &HeldLock| Some((lock.key().clone(), lock.check().err()?));
    let Some((key, error)) = held.iter().find_map(lost) else { return Err(failure) };
    let sentence = format!("{}, while others were taken: {error}", quoted(key.as_str()));
    if error.loss() == Some(Loss::Broken) || budget.left() == Some(Duration::ZERO) {
        return Err(Failure::new(BUSY, sentence));
    }
    if !budget.is_quiet() {
        say(&format!("{sentence}; taking all of them again"));
    }
    Ok(None)
}

/// Hands the claim to the caller. `None`: the caller is gone, and the locks are released.
fn present(
    channel: &ControlChannel,
    directory: ClaimDirectory,
    record: ClaimRecord,
    signals: &mut Signals,
    locks: Vec<HeldLock>,
    followed: Option<ProcessWatch>,
) -> Result<Option<HeldClaim>, Failure> {
    let id = record.claim.claim.clone();
    let mut handed = || {
        let listener = UnixListener::bind(ClaimDirectory::socket(&id))?;
        directory.write(&record)?;
        rustix::stdio::dup2_stderr(null()?)?;
        channel.hand_over(&[HELD, json_line(&record.claim).as_bytes()], &[])?;
        let is_kept = signals.until_readable(channel, None)?.is_ok()
            && channel.take_over()?.is_some_and(|(parts, _)| parts == [KEPT]);
        Ok::<_, io::Error>(is_kept.then_some(listener))
    };
    match handed() {
        Ok(Some(listener)) => Ok(Some(HeldClaim { directory, record, locks, listener, followed })),
        Ok(None) => {
            directory.forget(&id);
            Ok(None)
        }
        Err(error) => {
            directory.forget(&id);
            Err(error.into())
        }
    }
}
