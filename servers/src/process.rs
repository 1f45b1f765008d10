//! A process with a log, which a test may freeze, kill and start again.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::Result;
use crate::patience::until;
use crate::warden::warden;

/// Number of lines of the log in an error.
const LOG_LINES_MAX: usize = 12;

/// The process of one server. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Process {
    /// The subject of error messages: `redis-server at 127.0.0.1:7000`.
    name: String,
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    command: Command,
    child: Option<Child>,
}

impl Process {
    /// Prepares a program. Its output is appended to `log`, also after a restart.
    pub(crate) fn new(name: String, mut command: Command, log: PathBuf) -> Result<Self> {
        let file = File::options().create(true).append(true).open(&log);
        let (out, err) = file
            .and_then(|file| Ok((file.try_clone()?, file)))
            .map_err(|error| format!("{} cannot be written: {error}.", log.display()))?;
        // A process group of its own: a signal to the group of the tests does not reach the server.
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        Ok(Self { name, log, state: Mutex::new(State { command, child: None }) })
    }

    /// Starts the program, and waits until `ready` succeeds. Kills it after the time limit.
    pub(crate) fn start<T>(&self, mut ready: impl FnMut() -> Result<T>) -> Result<T> {
        self.spawn()?;
        let mut ended = None;
        let answer = until(|| match self.ended()? {
            Some(status) => {
                ended = Some(status);
                Ok(None)
            }
            None => ready().map(Some),
        });
        match (answer, ended) {
            (Ok(Some(answer)), _) => Ok(answer),
            (_, Some(status)) => Err(self.telling(&format!("ended at once with {status}"))),
            (other, None) => {
                self.kill()?;
                let reason = other.err().unwrap_or_default();
                Err(self.telling(&format!("was not ready in time: {reason}")))
            }
        }
    }

    /// The pid, while the process runs.
    pub(crate) fn pid(&self) -> Result<u32> {
        let state = self.state();
        state.child.as_ref().map(Child::id).ok_or_else(|| format!("{} does not run.", self.name))
    }

    /// Kills the process with SIGKILL, and waits for its end. It may have ended already.
    pub(crate) fn kill(&self) -> Result<()> {
        let mut state = self.state();
        let Some(mut child) = state.child.take() else { return Ok(()) };
        // Fails if the process has ended by itself. It is waited for in any case.
        let killed = child.kill();
        warden()?.forget(child.id())?;
        child.wait().and(killed).map_err(|error| self.failed("killed", &error))
    }

    /// Stops the process with SIGTERM, and waits for its end.
    pub(crate) fn stop_politely(&self) -> Result<ExitStatus> {
        self.stop_by(Signal::TERM)
    }

    /// Stops the process with this signal, and waits for its end.
    pub(crate) fn stop_by(&self, signal: Signal) -> Result<ExitStatus> {
        self.signal(Signal::CONT, "thawed")?;
        self.signal(signal, "stopped")?;
        let stopped = until(|| self.ended()?.ok_or_else(|| format!("{} did not stop.", self.name)));
        if stopped.is_err() {
            self.kill()?;
        }
        stopped
    }

    /// Freezes the process with SIGSTOP, and waits until it is stopped.
    pub(crate) fn freeze(&self) -> Result<()> {
        let pid = self.signal(Signal::STOP, "frozen")?;
        let what = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        let seen = waitid(WaitId::Pid(pid), what).map_err(|error| self.failed("frozen", &error))?;
        match seen {
            Some(status) if status.stopped() => Ok(()),
            _ => Err(format!("{} ended before it was frozen.", self.name)),
        }
    }

    /// Resumes the process.
    pub(crate) fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT, "thawed").map(drop)
    }

    /// Returns an error message with the end of the log.
    pub(crate) fn telling(&self, what: &str) -> String {
        let what = what.trim_end_matches('.');
        format!("{} {what}. {}", self.name, tail(&self.log))
    }

    fn spawn(&self) -> Result<()> {
        let mut state = self.state();
        if state.child.is_some() {
            return Err(format!("{} runs already.", self.name));
        }
        let warden = warden()?;
        let child = state.command.spawn();
        let child = child.map_err(|error| self.failed("started", &error))?;
        let pid = state.child.insert(child).id();
        warden.watch(pid)
    }

    /// Returns the exit status if the process has ended.
    fn ended(&self) -> Result<Option<ExitStatus>> {
        let mut state = self.state();
        let Some(child) = state.child.as_mut() else {
            return Err(format!("{} does not run.", self.name));
        };
        let status = child.try_wait().map_err(|error| self.failed("waited for", &error))?;
        if status.is_some() {
            warden()?.forget(child.id())?;
            state.child = None;
        }
        Ok(status)
    }

    fn signal(&self, signal: Signal, done: &str) -> Result<Pid> {
        let state = self.state();
        let Some(child) = state.child.as_ref() else {
            return Err(format!("{} does not run, and cannot be {done}.", self.name));
        };
        let pid = Pid::from_child(child);
        kill_process(pid, signal).map_err(|error| self.failed(done, &error))?;
        Ok(pid)
    }

    fn failed(&self, done: &str, error: &dyn std::fmt::Display) -> String {
        format!("{} could not be {done}: {error}.", self.name)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // If this fails, the warden kills the process.
        let _ = self.kill();
    }
}

fn tail(log: &Path) -> String {
    let text = match fs::read(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("Its log {} cannot be read: {error}.", log.display()),
    };
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    if lines.is_empty() {
        return "It wrote nothing.".into();
    }
    let last = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
    format!("Its log ends:\n{}", last.join("\n"))
}
