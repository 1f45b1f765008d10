//! The shim: this executable, which takes the terminal and then becomes the command.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use super::job;
use super::process::own_executable;
use crate::failure::{CANNOT_RUN, NOT_FOUND, USAGE, say};

/// The first argument that makes this program a shim.
pub(crate) const ARGUMENT: &str = "--become";
/// Take the terminal first.
pub(crate) const WITH_TERMINAL: &str = "with-terminal";
/// Leave the terminal alone.
pub(crate) const WITHOUT_TERMINAL: &str = "without-terminal";

/// Returns a shim that becomes this command.
pub(crate) fn command(terminal: &str, arguments: &[OsString]) -> io::Result<Command> {
    let mut command = own_executable()?;
    command.args([ARGUMENT, terminal]).args(arguments);
    Ok(command)
}

/// Runs `--become with-terminal|without-terminal CMD…`.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let (Some(terminal), Some(program)) = (arguments.next(), arguments.next()) else {
        say("`--become` is for internal use");
        return ExitCode::from(USAGE);
    };
    if let Some(group) = job::own_group().filter(|_| terminal == WITH_TERMINAL) {
        job::hand_over(io::stdin(), group);
    }
    let error = Command::new(&program).args(arguments).exec();
    let (code, sentence) = explain(&program, &error);
    say(&sentence);
    ExitCode::from(code)
}

/// Returns the exit code and the message for a command that did not start.
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
