//! Runs processes, and describes their failures in one line.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// The error is one line, or the output of a failed command, ready to be printed.
pub(crate) type Result<T, E = String> = std::result::Result<T, E>;

/// A call of cargo without standard input: a prompt must fail rather than wait.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end. Its output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` failed: {status}", shown(command))) }
}

/// Runs a command to its end, and returns its output.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| not_started(command, &error))?;
    if !output.status.success() {
        return Err(format!("`{}` failed: {}", shown(command), output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("the output of `{}` is not valid UTF-8", shown(command)))
}

/// Runs a shell script to its end. If it fails, the error has its output, and `task` as its name.
pub(crate) fn run_script<'a>(
    mut shell: Command,
    script: &str,
    arguments: impl IntoIterator<Item = &'a OsStr>,
    task: &str,
) -> Result<()> {
    shell.args(["-c", &format!("exec 2>&1\n{script}"), "script"]).args(arguments);
    shell.stdin(Stdio::null());
    let output = shell.output().map_err(|error| not_started(&Command::new("sh"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let written = String::from_utf8_lossy(&output.stdout);
    Err(format!("{written}{task} failed: {}", output.status))
}

/// Whether a command runs and succeeds. Its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The error for a command that could not be started.
pub(crate) fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start `{}`: {error}", shown(command))
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
