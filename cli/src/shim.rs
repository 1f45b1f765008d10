//! The first moment of a command: this program again, as the child, which ties its life to its
//! parent's and then becomes the command.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, getpgrp, getppid};

use crate::failure::{CANNOT_RUN, NOT_FOUND, SIGNALLED, say};
use crate::terminal;

/// The word that makes this program a shim.
pub(crate) const WORD: &str = "--become";
/// Take the terminal first.
pub(crate) const WITH_TERMINAL: &str = "with-terminal";
/// Leave the terminal alone.
pub(crate) const WITHOUT_TERMINAL: &str = "without-terminal";

/// `--become PARENT with-terminal|without-terminal CMD…`.
pub(crate) fn main(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let parent = words.next().and_then(|word| word.to_str()?.parse().ok());
    let terminal = words.next();
    let (Some(parent), Some(terminal), Some(program)) = (parent, terminal, words.next()) else {
        say("this word is for tenure's own use");
        return ExitCode::from(crate::failure::USAGE);
    };
    die_with_parent();
    if getppid() != Pid::from_raw(parent) {
        // It died before it could matter to anyone.
        return ExitCode::from(SIGNALLED + 9);
    }
    if terminal == WITH_TERMINAL {
        terminal::hand_over(io::stdin(), getpgrp());
    }
    let error = Command::new(&program).args(words).exec();
    let (code, sentence) = explain(&program, &error);
    say(&sentence);
    ExitCode::from(code)
}

/// The exit code and the sentence for a command that did not start.
pub(crate) fn explain(program: &OsString, error: &io::Error) -> (u8, String) {
    let program = program.display();
    match error.kind() {
        ErrorKind::NotFound => (NOT_FOUND, format!("there is no command `{program}`")),
        ErrorKind::PermissionDenied => {
            (CANNOT_RUN, format!("the command `{program}` cannot be executed: permission denied"))
        }
        _ => (CANNOT_RUN, format!("the command `{program}` cannot be executed: {error}")),
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn die_with_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    let _ended_by_the_watchdog_all_the_same = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Here the watchdog does it alone.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn die_with_parent() {}
