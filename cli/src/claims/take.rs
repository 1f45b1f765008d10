//! `tenure take`: takes a claim, which its own process holds from then on.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;
use tenure::Key;
use tenure_kit::duration;

use super::directory::write_private;
use super::followed::Followed;
use super::holder::{self, ClaimTask, FAILED, HELD, KEPT};
use super::paths::{self, ClaimKeys, TreePath};
use crate::acquisition::LockMode;
use crate::failure::{Failure, OUTPUT, REFUSED, answer};
use crate::screen::quoted;
use crate::store::Address;
use crate::supervisor::control_channel::ControlChannel;
use crate::supervisor::signals::Signals;

/// Time limit for a claim holder to leave its lines after an interrupt.
const LEAVE_MAX: Duration = Duration::from_secs(4);

/// Takes a claim: one or more locks that several commands use.
///
/// Waits until all of its locks are held, and prints the claim as one JSON object: `claim` (its
/// id), `keys` (each with `key`, `id`, `token` and `kind`), `pid` of the process that holds it, and
/// `on`, the store without password. `tenure renew`, `drop` and `show` find the claim in
/// TENURE_CLAIM, or with --claim.
///
/// A process in the background holds the locks and renews their leases; ps(1) shows it as
/// claim-holder. The claim ends with `tenure drop`, or when the process that started `tenure take`,
/// usually the shell, exits or is killed. A wrapper such as timeout(1) is such a process and ends
/// at once: use --while-pid $$ or --ttl there. With --ttl, the claim ends when that time has passed
/// without a `tenure renew`.
///
/// A claim is lost if its locks are broken, if the store does not renew them in time, or if the
/// claim-holder is killed; the next command that uses the claim then exits with 76. A claim stops
/// no program: commands that must not work without it check with `tenure renew`, or use `tenure
/// run`. After a loss the other locks are released when a command has reported it, or after 30
/// seconds.
///
/// Several keys are all taken or none, in the order of their names, so that two claims cannot wait
/// for each other. A second `take` or `run` of a claimed key from the same shell waits for it.
///
/// A claim on a path excludes claims on the same path, above it and below it. It is exclusive on
/// the key `path:src/db/a.rs`, and shared on `path:src/db`, `path:src` and `path:.`, which `tenure
/// line` shows. Paths count from the top of the work tree, which is the nearest directory with
/// `.git`, so agents in different work trees of one repository use the same keys. Elsewhere they
/// count from the current directory. The files need not exist. The locks are those of the store:
/// repositories with paths of the same name exclude each other unless they use different stores.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[command(after_long_help = "\
Examples:
  TENURE_CLAIM=$(tenure take release) || exit; export TENURE_CLAIM
  ./build && tenure renew && ./publish; tenure drop

  tenure take --path src/db/*.rs --file claim.json --ttl 10m
  tenure take -n a b c >claim.json || echo 'one of them is busy'")]
pub(crate) struct Args {
    /// The keys of the locks.
    #[arg(value_name = "KEY", required_unless_present = "path")]
    keys: Vec<String>,
    /// Claims files or directories.
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["keys", "shared"])]
    path: Vec<String>,
    /// Shares the keys with other shared holders.
    #[arg(short, long)]
    shared: bool,
    /// Exits with 75 at once if a lock is busy.
    #[arg(short, long, aliases = ["nonblock", "nb"])]
    no_wait: bool,
    /// Exits with 75 after this time [default: never].
    ///
    /// Within this time tenure also retries while the store is unreachable, as `tenure run` does.
    #[arg(short, long, value_name = "TIME", value_parser = duration::parse, alias = "timeout",
        conflicts_with = "no_wait")]
    wait: Option<Duration>,
    /// Ends the claim with this process [default: its parent].
    ///
    /// A command substitution, as in `x=$(tenure take k)`, counts as its shell. On macOS only a
    /// shell that runs tenure itself does: give $$ there.
    #[arg(long, value_name = "PID", conflicts_with = "ttl")]
    while_pid: Option<i32>,
    /// Ends the claim when it was not renewed for this time.
    ///
    /// The claim then does not depend on any process.
    #[arg(long, value_name = "TIME", value_parser = ttl)]
    ttl: Option<Duration>,
    /// Writes the claim to this file, and prints nothing.
    ///
    /// Only you can read the file.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// A text that others see in the line.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
}

fn ttl(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        Duration::ZERO => Err("it is longer than 0s".into()),
        ttl => Ok(ttl),
    }
}

pub(crate) fn take(at: &Address, args: &Args) -> Result<u8, Failure> {
    let keys = args.claim_keys()?.into_iter().map(|(key, mode)| (key, mode == LockMode::Shared));
    let task = ClaimTask {
        on: at.on.clone(),
        quiet: at.quiet,
        make: at.make,
        keys: keys.collect(),
        wait: if args.no_wait { Some(Duration::ZERO) } else { args.wait },
        note: args.note.clone(),
        followed: args.followed()?,
        ttl: args.ttl,
    };
    let mut signals = Signals::install()?;
    let channel = start(&task)?;
    if let Err(signal) = signals.until_readable(&channel, None)? {
        give_up(&channel, &mut signals)?;
        return Err(Failure::asked(signal));
    }
    let message = channel.take_over()?.map(|(parts, _)| parts).unwrap_or_default();
    match message.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] {
        [HELD, claim] => {
            if let Err(failure) = args.hand_out(claim) {
                give_up(&channel, &mut signals)?;
                return Err(failure);
            }
            channel.hand_over(&[KEPT], &[]).map_err(|_| killed())?;
            Ok(0)
        }
        [FAILED, code] => {
            let code = std::str::from_utf8(code).ok().and_then(|code| code.parse().ok());
            Err(Failure::silent(code.unwrap_or(REFUSED)))
        }
        _ => Err(killed()),
    }
}

/// Starts a claim holder, and gives it its task.
fn start(task: &ClaimTask) -> Result<ControlChannel, Failure> {
    let (channel, holders) = ControlChannel::new()?;
    let started = holder::command(holders).and_then(|mut command| command.spawn());
    started
        .map_err(|error| Failure::new(REFUSED, format!("no process can be started: {error}")))?;
    let task = serde_json::to_vec(task).expect("texts and numbers can be written");
    channel.hand_over(&[&task], &[]).map_err(|_| killed())?;
    Ok(channel)
}

/// Has the claim holder release everything, and waits for its end.
fn give_up(channel: &ControlChannel, signals: &mut Signals) -> Result<(), Failure> {
    channel.end();
    let _ = signals.until_readable(channel, Some(LEAVE_MAX))?; // at a second signal, do not wait
    Ok(())
}

fn killed() -> Failure {
    Failure::new(REFUSED, "the process that was to hold the claim was killed: nothing is held")
}

impl Args {
    /// The keys in the order in which they are locked.
    fn claim_keys(&self) -> Result<ClaimKeys, Failure> {
        let mode = if self.shared { LockMode::Shared } else { LockMode::Exclusive };
        let mut keys: ClaimKeys = self.keys.iter().map(|key| (key.clone(), mode)).collect();
        if !self.path.is_empty() {
            let here = env::current_dir()?;
            let top = here.ancestors().find(|above| is_work_tree(above)).unwrap_or(&here);
            let read = |path: &String| TreePath::read(path, &here, top).map_err(Failure::usage);
            keys = paths::keys(&self.path.iter().map(read).collect::<Result<Vec<_>, _>>()?);
        }
        keys.keys().try_for_each(|key| Key::new(key).map(drop))?;
        Ok(keys)
    }

    /// The process with which the claim ends.
    fn followed(&self) -> Result<Option<Followed>, Failure> {
        if self.ttl.is_some() {
            return Ok(None);
        }
        let (found, missing) = match self.while_pid {
            Some(pid) => (
                Some(pid).filter(|pid| *pid > 0).and_then(Pid::from_raw).and_then(Followed::find),
                format!("there is no process {pid} that a claim could end with"),
            ),
            None => (
                Followed::parent(),
                "this process has no parent that the claim could end with: name a process with \
                 --while-pid, or a time with --ttl"
                    .to_owned(),
            ),
        };
        found.map(Some).ok_or_else(|| Failure::usage(missing))
    }

    /// Prints the claim, or writes it to a file.
    fn hand_out(&self, claim: &[u8]) -> Result<(), Failure> {
        let Some(path) = &self.file else {
            if crate::screen::Screen::output_is_closed() {
                return Err(Failure::new(
                    OUTPUT,
                    "standard output is closed: nothing would know the claim; nothing is held",
                ));
            }
            return answer(claim);
        };
        let written = unfinished(path).and_then(|unfinished| {
            write_private(path, &unfinished, &String::from_utf8_lossy(claim))
        });
        written.map_err(|error| {
            let path = quoted(&path.to_string_lossy());
            Failure::new(OUTPUT, format!("cannot write the claim to {path}: {error}"))
        })
    }
}

/// Whether a directory is the top of a work tree of git. In a linked work tree, `.git` is a file.
fn is_work_tree(path: &Path) -> bool {
    path.join(".git").symlink_metadata().is_ok()
}

/// The name under which a file is written before it gets its own.
fn unfinished(path: &Path) -> std::io::Result<PathBuf> {
    let mut name = path.file_name().ok_or(std::io::ErrorKind::IsADirectory)?.to_owned();
    name.push(format!(".{}.new", std::process::id()));
    Ok(path.with_file_name(name))
}
