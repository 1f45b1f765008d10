//! `tenure run` as a child of `tenure mcp`: reports its outcome to the session, and ends with it.
//!
//! Standard input is one end of a socket, and the session has the other end. A command may exit
//! with any code, so the exit code alone does not say whether the lock was busy. At the end of the
//! socket the session is gone, even if it was killed: then this process kills itself, and its
//! keeper kills all processes of the command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::iter;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::thread;

use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::args;
use crate::failure::Failure;

/// The first argument that makes this program a run of a session.
pub(crate) const ARGUMENT: &str = "--in-session";

/// How a run ended.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct RunOutcome {
    /// The exit code, as of `tenure run`.
    pub(super) code: u8,
    /// The command did not end by itself: the code is of `tenure`.
    pub(super) is_own: bool,
    pub(super) message: String,
}

impl RunOutcome {
    fn of(outcome: &Result<u8, Failure>) -> Self {
        match outcome {
            Ok(code) => Self { code: *code, is_own: false, message: String::new() },
            Err(failure) => Self {
                code: failure.code(),
                is_own: !failure.is_of_command(),
                message: failure.sentence().into(),
            },
        }
    }
}

/// Runs `--in-session run …`.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let mut session = match tie() {
        Ok(session) => session,
        Err(failure) => return failure.report(),
    };
    let words: Vec<_> = iter::once("tenure".into()).chain(arguments).collect();
    let outcome = args::parse(&words).and_then(crate::dispatch);
    // The session has the message from here, so that it is not in the output as well.
    let report = serde_json::to_vec(&RunOutcome::of(&outcome)).map_err(io::Error::other);
    let _ = report.and_then(|report| session.write_all(&report)); // without it the run has failed
    ExitCode::from(outcome.unwrap_or_else(|failure| failure.code()))
}

/// Takes the socket from standard input, which becomes empty, and ends this process with the
/// session.
fn tie() -> Result<UnixStream, Failure> {
    let session = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?).map_err(io::Error::from)?;
    let mut end = session.try_clone()?;
    thread::Builder::new().name("session".into()).spawn(move || {
        // The session sends nothing.
        if matches!(end.read(&mut [0]), Ok(0) | Err(_)) {
            let _ = kill_process(getpid(), Signal::KILL); // this process may always do so
        }
    })?;
    Ok(session)
}
