//! The first moment of some commands: this program again, which takes the terminal and then becomes the command.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::failure::{CANNOT_RUN, NOT_FOUND, USAGE, say};
use crate::job;
use crate::process::myself;

/// The word that makes this program a shim.
pub(crate) const WORD: &str = "--become";
/// Take the terminal first.
pub(crate) const WITH_TERMINAL: &str = "with-terminal";
/// Leave the terminal alone.
pub(crate) const WITHOUT_TERMINAL: &str = "without-terminal";

/// A shim that becomes this command.
pub(crate) fn command(terminal: &str, words: &[OsString]) -> io::Result<Command> {
    let mut command = myself()?;
    command.args([WORD, terminal]).args(words);
    Ok(command)
}

/// `--become with-terminal|without-terminal CMD…`.
pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(terminal), Some(program)) = (words.next(), words.next()) else {
        say("this word is for tenure's own use");
        return ExitCode::from(USAGE);
    };
    if let Some(group) = job::own_group().filter(|_| terminal == WITH_TERMINAL) {
        job::hand_over(io::stdin(), group);
    }
    let error = Command::new(&program).args(words).exec();
    let (code, sentence) = explain(&program, &error);
    say(&sentence);
    ExitCode::from(code)
}

/// The exit code and the sentence for a command that did not start.
pub(crate) fn explain(program: &OsStr, error: &io::Error) -> (u8, String) {
    let program = program.display();
    match error.kind() {
        ErrorKind::NotFound => (NOT_FOUND, format!("there is no command `{program}`")),
        ErrorKind::PermissionDenied => {
            (CANNOT_RUN, format!("the command `{program}` cannot be executed: permission denied"))
        }
        _ => (CANNOT_RUN, format!("the command `{program}` cannot be executed: {error}")),
    }
}
