//! A failure: an exit code for scripts and a message for people.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal, getpid, setrlimit};
use tenure::{Error, ErrorKind};

use crate::screen::Screen;
use crate::store::SETTLE_MAX;
use crate::supervisor::ExitReason;
use crate::supervisor::signals::is_ending;

/// There is nothing to break, or no holder.
pub(crate) const NOTHING: u8 = 1;
/// The arguments are wrong.
pub(crate) const USAGE: u8 = 64;
/// The store is unreachable.
pub(crate) const UNREACHABLE: u8 = 69;
/// The output cannot be written.
pub(crate) const OUTPUT: u8 = 74;
/// The lock is busy, or the wait for it timed out.
pub(crate) const BUSY: u8 = 75;
/// The claim is lost.
pub(crate) const CLAIM_LOST: u8 = 76;
/// The store refused.
pub(crate) const REFUSED: u8 = 77;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 79;
/// As in shells: the command exists and cannot be run.
pub(crate) const CANNOT_RUN: u8 = 126;
/// As in shells: the command does not exist.
pub(crate) const NOT_FOUND: u8 = 127;
/// As in shells: added to the number of the signal that ended the command.
pub(crate) const SIGNALLED: u8 = 128;
/// The exit code of a program that writes to a closed pipe.
const PIPE_CLOSED: u8 = SIGNALLED + 13;

/// The end of this program, other than success.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    sentence: Option<String>,
    page: Option<String>,
    signal: Option<i32>,
    /// The command ended so, and not this program.
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "a session of an agent reads it"))]
    is_of_command: bool,
}

impl Failure {
    /// A failure with an exit code and a message.
    pub(crate) fn new(code: u8, sentence: impl Into<String>) -> Self {
        Self { sentence: Some(sentence.into()), ..Self::silent(code) }
    }

    /// A failure because of wrong arguments.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self::new(USAGE, sentence)
    }

    /// A failure that was reported already, or needs no report.
    pub(crate) fn silent(code: u8) -> Self {
        Self { code, sentence: None, page: None, signal: None, is_of_command: false }
    }

    /// A success with nothing to show; the message is for terminals only.
    pub(crate) fn nothing(sentence: &str) -> Self {
        match Screen::of_output() {
            Some(_) => Self::new(0, sentence),
            None => Self::silent(0),
        }
    }

    /// This signal asked this process to end.
    pub(crate) fn asked(signal: Signal) -> Self {
        Self::killed(signal.as_raw())
    }

    /// The signal of this number ended the command.
    fn killed(signal: i32) -> Self {
        let code = SIGNALLED + u8::try_from(signal & 0x7f).unwrap_or(0);
        Self { signal: Some(signal), ..Self::silent(code) }
    }

    /// Ends this process as the command ended.
    pub(crate) fn like(reason: ExitReason) -> Result<u8, Self> {
        match reason {
            ExitReason::Exited(code) => Ok(code),
            ExitReason::Killed(signal) => {
                let failure = Self::killed(signal.into());
                // A crash is the command's: one core file and one log line of it are enough.
                let is_asking = Signal::from_named_raw(signal.into()).is_some_and(is_ending);
                let failure = if is_asking { failure } else { Self::silent(failure.code) };
                Err(Self { is_of_command: true, ..failure })
            }
        }
    }

    /// A page, such as help, for standard output.
    pub(crate) fn page(text: String) -> Self {
        Self { page: Some(text), ..Self::silent(0) }
    }

    /// The same failure, with another exit code if it is [`BUSY`].
    pub(crate) fn with_busy_code(self, code: Option<u8>) -> Self {
        match code {
            Some(code) if self.code == BUSY => Self { code, ..self },
            _ => self,
        }
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// Whether the command ended so, and not this program.
    #[cfg(feature = "mcp")]
    pub(crate) fn is_of_command(&self) -> bool {
        self.is_of_command
    }

    /// The message.
    pub(crate) fn sentence(&self) -> &str {
        self.sentence.as_deref().unwrap_or_default()
    }

    /// Writes the message or page, and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        if let Some(sentence) = self.sentence {
            say(&sentence);
        }
        if let Some(signal) = self.signal {
            die_by(signal);
        }
        match self.page.map(answer) {
            Some(Err(failure)) => failure.report(),
            _ => ExitCode::from(self.code),
        }
    }
}

/// Ends this process by a signal, so that a shell ends its loop or script. Returns in the first
/// process of a system or container, which no signal can end.
fn die_by(signal: i32) {
    if getpid().is_init() {
        return;
    }
    // A core file of this process would be of no use. Without the limit, there is one.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: None });
    let _ = signal_hook::low_level::emulate_default_handler(signal); // the exit code is the fallback
}

/// Writes a message to standard error.
pub(crate) fn say(sentence: &str) {
    write_error(&format!("tenure: {}\n", crate::screen::printable(sentence)), SETTLE_MAX);
}

/// The last text was dropped, because standard error accepted nothing in time.
static IS_STUCK: AtomicBool = AtomicBool::new(false);
/// The bytes that a pipe with room accepts at once, at least (`PIPE_BUF`).
const CHUNK: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

/// Writes a text to standard error, which may be closed. Returns whether it was written.
///
/// The reader of a pipe may hang, or a terminal may be stopped. A lock must not wait for that:
/// after `patience` the rest of the text is dropped, and later texts are dropped at once until
/// standard error accepts bytes again.
pub(crate) fn write_error(text: &str, patience: Duration) -> bool {
    let mut stderr = io::stderr();
    text.as_bytes().chunks(CHUNK).all(|chunk| {
        let is_stuck = IS_STUCK.load(Ordering::Relaxed);
        let accepts = accepts(&stderr, if is_stuck { Duration::ZERO } else { patience });
        IS_STUCK.store(!accepts, Ordering::Relaxed);
        accepts && stderr.write_all(chunk).is_ok()
    })
}

/// Waits until a file accepts bytes, or has an error, which a write finds.
fn accepts(file: &impl AsFd, patience: Duration) -> bool {
    let began = Instant::now();
    loop {
        let left = patience.saturating_sub(began.elapsed());
        let left = Timespec::try_from(left).ok();
        match poll(&mut [PollFd::new(file, PollFlags::OUT)], left.as_ref()) {
            Ok(0) => return false,
            Err(Errno::INTR) => {}
            _ => return true,
        }
    }
}

/// Writes a message to standard error if `--verbose` is set.
pub(crate) fn say_if(verbose: bool, sentence: impl FnOnce() -> String) {
    if verbose {
        say(&sentence());
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Lost => LOST,
            ErrorKind::Unavailable => UNREACHABLE,
            ErrorKind::Invalid => USAGE,
            _ => REFUSED,
        };
        Self::new(code, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(REFUSED, format!("the operating system refused a call: {error}"))
    }
}

/// Writes an answer to standard output, and flushes it.
pub(crate) fn answer(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_ref()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::silent(PIPE_CLOSED),
        _ => Failure::new(OUTPUT, format!("cannot write the answer: {error}")),
    })
}
