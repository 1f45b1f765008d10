//! The tests are one run of `cargo test`, with every server that they need.

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{ExitCode, Stdio};

use crate::process::{Result, cargo, not_started};
use crate::servers;
use crate::tally::Tally;

/// Most tests wait for a lease, a process or a server: more of them than cores run side by side.
const THREADS: (&str, &str) = ("RUST_TEST_THREADS", "6");

/// What came of a run.
pub(crate) struct Outcome {
    pub passed: bool,
    pub tally: Tally,
}

/// `cargo xtask test`: whatever happened, the tally is the last line.
pub(crate) fn command(arguments: &[&str]) -> Result<ExitCode> {
    let outcome = run(arguments, &[])?;
    println!("{}", outcome.tally);
    Ok(if outcome.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Starts the servers, runs the tests with the given environment, and stops the servers.
pub(crate) fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Outcome> {
    let servers = servers::prepare()?;
    let mut command = cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
    if std::env::var_os(THREADS.0).is_none() {
        command.env(THREADS.0, THREADS.1);
    }
    command
        .args(arguments)
        .envs(environment.iter().copied())
        .envs(servers.addresses())
        .stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| not_started(&command, &error))?;
    let output = child.stdout.take().expect("the output was asked for as a pipe");
    let mut tally = pass_on(output);
    let status = child.wait().map_err(|error| format!("`cargo test` was lost: {error}."))?;
    drop(servers);

    let mut passed = status.success();
    if !passed && tally.failed == 0 {
        println!("The tests did not build, or a test program died: this counts as one failure.");
        tally.failed = 1;
    }
    if passed && tally.passed == 0 && arguments.is_empty() {
        println!("No test ran, and there are tests: this counts as one failure.");
        tally.failed = 1;
        passed = false;
    }
    Ok(Outcome { passed, tally })
}

/// Prints what the runner says while it says it, and counts along.
fn pass_on(output: impl Read) -> Tally {
    let mut tally = Tally::default();
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
        tally.hear(&String::from_utf8_lossy(&line));
        // A reader who has gone away is no reason to stop testing.
        let _ = std::io::stdout().write_all(&line);
        line.clear();
    }
    tally
}
