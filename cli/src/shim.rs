//! The first moment of a command in a terminal: this program again, which takes the terminal and then becomes the
//! command.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use crate::failure::{CANNOT_RUN, NOT_FOUND, USAGE, say};
use crate::terminal;

/// The word that makes this program a shim.
pub(crate) const WORD: &str = "--become";

/// `--become CMD…`.
pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(program) = words.next() else {
        say("this word is for tenure's own use");
        return ExitCode::from(USAGE);
    };
    if let Some(group) = terminal::own_group() {
        terminal::hand_over(io::stdin(), group);
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
