//! A failure ends this program: a code for scripts, and a sentence for people.

use std::io::{self, Write as _};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, Signal, getpid, setrlimit};
use tenure::{Error, ErrorKind};

use crate::leash::Ending;
use crate::screen::Screen;
use crate::signals::is_ending;

/// The words make no sense.
pub(crate) const USAGE: u8 = 64;
/// The store cannot be reached.
pub(crate) const UNREACHABLE: u8 = 69;
/// What was to be written could not be.
pub(crate) const OUTPUT: u8 = 74;
/// Busy, or waited in vain.
pub(crate) const BUSY: u8 = 75;
/// The store refused.
pub(crate) const REFUSED: u8 = 77;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 79;
/// As shells have it: there is such a command, and it cannot be run.
pub(crate) const CANNOT_RUN: u8 = 126;
/// As shells have it: there is no such command.
pub(crate) const NOT_FOUND: u8 = 127;
/// As shells have it: ended by the signal of the number that is added.
pub(crate) const SIGNALLED: u8 = 128;
/// The exit code of a program that writes to a pipe which nobody reads.
const PIPE_CLOSED: u8 = SIGNALLED + 13;

/// How it ends, if not well.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    sentence: Option<String>,
    page: Option<String>,
    signal: Option<i32>,
}

impl Failure {
    /// A sentence for people, and a code for scripts.
    pub(crate) fn new(code: u8, sentence: impl Into<String>) -> Self {
        Self { code, sentence: Some(sentence.into()), page: None, signal: None }
    }

    /// The words make no sense.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self::new(USAGE, sentence)
    }

    /// Everything was said already, or nothing needs to be.
    pub(crate) fn silent(code: u8) -> Self {
        Self { code, sentence: None, page: None, signal: None }
    }

    /// No failure: a look found nothing, which people are told.
    pub(crate) fn nothing(sentence: &str) -> Self {
        match Screen::of_output() {
            Some(_) => Self::new(0, sentence),
            None => Self::silent(0),
        }
    }

    /// A signal asked this process to end.
    pub(crate) fn asked(signal: Signal) -> Self {
        Self::killed(signal.as_raw())
    }

    /// A signal of this number ended what this process stood for.
    fn killed(signal: i32) -> Self {
        let code = SIGNALLED + u8::try_from(signal & 0x7f).unwrap_or(0);
        Self { signal: Some(signal), ..Self::silent(code) }
    }

    /// As the command ended, so does this process.
    pub(crate) fn like(ending: Ending) -> Result<u8, Self> {
        match ending {
            Ending::Exited(code) => Ok(code),
            Ending::Killed(signal) => {
                let failure = Self::killed(signal.into());
                // A crash is the command's own: one core file of it is enough, and one line in a log.
                let is_asking = Signal::from_named_raw(signal.into()).is_some_and(is_ending);
                Err(if is_asking { failure } else { Self::silent(failure.code) })
            }
        }
    }

    /// Not a failure at all: somebody asked for a page instead.
    pub(crate) fn page(text: String) -> Self {
        Self { code: 0, sentence: None, page: Some(text), signal: None }
    }

    /// The same, with another code if this is for busy.
    pub(crate) fn with_busy_code(self, code: Option<u8>) -> Self {
        match code {
            Some(code) if self.code == BUSY => Self { code, ..self },
            _ => self,
        }
    }

    /// What a script is told.
    pub(crate) fn code(&self) -> u8 {
        self.code
    }

    /// What a person is told.
    pub(crate) fn sentence(&self) -> &str {
        self.sentence.as_deref().unwrap_or_default()
    }

    /// Says it, and becomes the exit code.
    pub(crate) fn tell(self) -> ExitCode {
        if let Some(sentence) = self.sentence {
            say(&sentence);
        }
        if let Some(signal) = self.signal {
            die_by(signal);
        }
        match self.page.map(answer) {
            Some(Err(failure)) => failure.tell(),
            _ => ExitCode::from(self.code),
        }
    }
}

/// Ends this process by a signal, so that a shell sees what a shell would: that a loop, or a script, is to end.
/// Returns where no signal can end a process: the first of a system or a container is such a one.
fn die_by(signal: i32) {
    if getpid().is_init() {
        return;
    }
    // A core file of this process tells nothing.
    let _then_there_is_one = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: None });
    let _an_exit_code_says_it_too = signal_hook::low_level::emulate_default_handler(signal);
}

/// Says a sentence on standard error, where it disturbs no output.
pub(crate) fn say(sentence: &str) {
    let line = format!("tenure: {}\n", crate::screen::printable(sentence));
    let _nobody_listens = io::stderr().write_all(line.as_bytes());
}

/// Says what only those hear who asked for more.
pub(crate) fn tell(verbose: bool, sentence: impl FnOnce() -> String) {
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
        Self::new(REFUSED, format!("the system refuses what this needs: {error}"))
    }
}

/// Writes an answer on standard output, at once.
pub(crate) fn answer(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_ref()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::silent(PIPE_CLOSED),
        _ => Failure::new(OUTPUT, format!("cannot write the answer: {error}")),
    })
}
