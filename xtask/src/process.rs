//! A process is started, waited for, and answered for in a sentence.

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// What went wrong is a sentence, ready to be shown.
pub(crate) type Result<T, E = String> = std::result::Result<T, E>;

/// A call of cargo, without anything to read from: a question would never be answered.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end, its output going where ours goes.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| not_started(command, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}`: {status}.", shown(command))) }
}

/// Runs a command to its end, and gives what it wrote.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| not_started(command, &error))?;
    if !output.status.success() {
        return Err(format!("`{}`: {}.", shown(command), output.status));
    }
    String::from_utf8(output.stdout)
        .map_err(|_| format!("`{}` wrote something that is not UTF-8.", shown(command)))
}

/// Runs a script of the shell to its end. What it says is worth reading only if it fails, as `what` does then.
pub(crate) fn run_script<'a>(
    mut shell: Command,
    script: &str,
    arguments: impl IntoIterator<Item = &'a OsStr>,
    what: &str,
) -> Result<()> {
    shell.args(["-c", &format!("exec 2>&1\n{script}"), "script"]).args(arguments);
    shell.stdin(Stdio::null());
    let output = shell.output().map_err(|error| not_started(&Command::new("sh"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Err(format!("{said}{what} failed: {}.", output.status))
}

/// Whether a command runs and succeeds; what it says is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

/// The sentence for a command that could not even be started.
pub(crate) fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("`{}` could not be started: {error}.", shown(command))
}

fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
