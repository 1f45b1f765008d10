//! `run`: a command under a lock, by `tenure run` as a child process.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure::Key;
use tenure_kit::duration::brief;
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::answer::{Outcome, ToolAnswer};
use super::session::{Session, limited};
use super::session_run::{self, RunOutcome};
use super::tools::{OUTPUT_MAX, RUN_DEFAULT, RUN_MAX, RunArgs, WAIT_MAX};
use crate::failure::{BUSY, Failure, LOST, SIGNALLED};
use crate::screen::quoted;
use crate::store::VARIABLE;
use crate::supervisor::own_executable;

/// Time between TERM and KILL for a command that is stopped.
const KILL_AFTER: &str = "2s";
/// Time limit of the end of its run, which releases the lock. Then the run is killed, and its
/// keeper kills the command.
const STOP_GRACE: Duration = Duration::from_secs(8);
/// Time for the rest of the output: a process that the command left running may keep it open.
const REST_MAX: Duration = Duration::from_secs(2);
/// Maximum bytes of a report.
const REPORT_MAX: u64 = 64 * 1024;

impl Session {
    /// Runs a command under the lock of a key. The note in the line is the name of the client.
    pub(super) async fn run(&self, args: RunArgs, client: &str) -> Outcome {
        let wait = limited("wait_ms", args.wait_ms, Duration::ZERO, WAIT_MAX)?;
        let time = limited("timeout_ms", args.timeout_ms, RUN_DEFAULT, RUN_MAX)?;
        let key = Key::new(&args.key)?;
        if args.command.is_empty() {
            return Err(Failure::usage("`command` is empty: name a program and its arguments"));
        }
        if let Some(own) = self.refusal_of_own(&key, false) {
            return Ok(own);
        }
        // The child opens the store by itself, and creates no parent directory of it.
        self.locks().await?;
        let mut run = start(&self.url, &args, wait, client)?;
        let ended = tokio::select! {
            ended = run.child().wait() => Some(ended?),
            () = tokio::time::sleep(time) => None,
            () = self.stopped() => None,
        };
        if ended.is_none() {
            stop(run.child()).await?;
        }
        let report = run.report().await;
        let (output, cut) = run.output().await;
        let answer = match report {
            _ if ended.is_none() => ToolAnswer::stop("stopped", stopped(&args.key, time)),
            Some(report) => ended_so(&args.key, &report),
            None => ToolAnswer::stop(
                "unknown",
                format!(
                    "NOT held. The run under {} was killed: its work may be half done. Check before you \
                     go on.",
                    quoted(&args.key)
                ),
            ),
        };
        Ok(answer.with_output(output, cut))
    }
}

/// A `tenure run` that works.
struct Run {
    /// `None` once this is dropped.
    child: Option<Child>,
    session: Option<UnixStream>,
    output: Arc<Mutex<OutputEnd>>,
    reading: JoinHandle<()>,
}

/// Starts `tenure run` with one pipe for both outputs. Dropping it stops it: it leaves its line, or
/// ends its command and releases the lock. At the end of the session it is killed, and its keeper
/// kills the command.
fn start(url: &str, args: &RunArgs, wait: Duration, note: &str) -> Result<Run, Failure> {
    let (session, theirs) = StdStream::pair()?;
    let (output, into) = io::pipe()?;
    let mut command = own_executable()?;
    command.args([session_run::ARGUMENT, "run", "--stop-at-signals", "--kill-after", KILL_AFTER]);
    if wait.is_zero() {
        command.arg("--no-wait");
    } else {
        command.args(["--wait", &format!("{}ms", wait.as_millis())]);
    }
    command.args(["--quiet", &format!("--note={note}"), "--", &args.key, "--"]).args(&args.command);
    // Others can see the arguments of a process, and the URL may have a password.
    command.env(VARIABLE, url).stdin(OwnedFd::from(theirs)).stdout(into.try_clone()?).stderr(into);
    if let Some(directory) = &args.cwd {
        command.current_dir(directory);
    }
    let mut command = Command::from(command);
    let child = command.kill_on_drop(true).spawn().map_err(|error| match &args.cwd {
        Some(directory) => {
            Failure::usage(format!("nothing can be run in {}: {error}", quoted(directory)))
        }
        None => error.into(),
    })?;
    session.set_nonblocking(true)?;
    let session = UnixStream::from_std(session)?;
    let kept = Arc::new(Mutex::new(OutputEnd::default()));
    let reading = tokio::spawn(read(Receiver::from_owned_fd(output.into())?, kept.clone()));
    Ok(Run { child: Some(child), session: Some(session), output: kept, reading })
}

impl Run {
    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it is taken by the drop alone")
    }

    /// Returns what the child has reported; `None` if it was killed.
    async fn report(&mut self) -> Option<RunOutcome> {
        let mut report = Vec::new();
        let mut limited = self.session.as_mut()?.take(REPORT_MAX);
        // The child has ended, and no other process has its end of the socket.
        limited.read_to_end(&mut report).await.ok()?;
        serde_json::from_slice(&report).ok()
    }

    /// Returns the end of the output, and the number of bytes before it.
    async fn output(&mut self) -> (String, u64) {
        if timeout(REST_MAX, &mut self.reading).await.is_err() {
            self.reading.abort();
        }
        let kept = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.bytes.iter().copied().collect();
        (String::from_utf8_lossy(&bytes).into_owned(), kept.cut)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Without its session, the child would kill itself.
        let (Some(mut child), session) = (self.child.take(), self.session.take()) else { return };
        if let (Ok(None), Ok(runtime)) = (child.try_wait(), Handle::try_current()) {
            runtime.spawn(async move {
                // An error means that it has ended.
                let _ = stop(&mut child).await;
                drop(session);
            });
        }
    }
}

/// The last bytes of an output.
#[derive(Debug, Default)]
struct OutputEnd {
    bytes: VecDeque<u8>,
    cut: u64,
}

impl OutputEnd {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let over = self.bytes.len().saturating_sub(OUTPUT_MAX);
        self.bytes.drain(..over);
        self.cut += over as u64;
    }
}

async fn read(mut output: Receiver, kept: Arc<Mutex<OutputEnd>>) {
    let mut buffer = [0; 8 * 1024];
    // An error ends the output, too.
    while let Ok(length @ 1..) = output.read(&mut buffer).await {
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(&buffer[..length]);
    }
}

/// Asks a run to end, and kills it if it does not.
async fn stop(child: &mut Child) -> io::Result<()> {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM); // it may have ended
    }
    if timeout(STOP_GRACE, child.wait()).await.is_err() {
        child.kill().await?;
    }
    Ok(())
}

fn stopped(key: &str, time: Duration) -> String {
    format!(
        "NOT held. The run under {} was stopped, at the end of its time ({}) or of the session: its work \
         may be half done. Check before you go on.",
        quoted(key),
        brief(time)
    )
}

/// The answer for a run that has ended by itself.
fn ended_so(key: &str, report: &RunOutcome) -> ToolAnswer {
    let (key, RunOutcome { code, is_own, message }) = (quoted(key), report);
    if !is_own {
        let answer = ToolAnswer::not_held(format!(
            "Ran under {key}, which is released again. The command's exit code is {code}."
        ));
        return answer.with("ran", true).with("exit_code", *code);
    }
    match *code {
        BUSY => ToolAnswer::not_held(format!(
            "NOT held, nothing was run: {message}. Run again with `wait_ms` to stand in line, or do \
             other work."
        ))
        .with("reason", "busy")
        .with("ran", false),
        LOST => ToolAnswer::stop(
            "lost",
            format!(
                "LOST: the lock {key} was lost while the command ran, and the command was stopped. Its \
                 work may be half done, and others may have begun. Read everything again. {message}"
            ),
        )
        .with("ran", true),
        code if code > SIGNALLED => ToolAnswer::not_held(format!(
            "NOT held, nothing was run: a signal ended the run while it waited for {key}."
        ))
        .with("ran", false),
        code => ToolAnswer::from(Failure::new(code, message.as_str())).with("ran", false),
    }
}
