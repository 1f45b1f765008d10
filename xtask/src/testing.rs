//! The tests run as programs side by side, with every server that they need.

mod crowd;
mod program;
mod schedule;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{ExitCode, Stdio};

use crate::process::{Result, cargo, not_started};
use crate::servers;
use crate::tally::Tally;
use crowd::Ended;

/// What came of a run.
pub(crate) struct Outcome {
    pub passed: bool,
    pub tally: Tally,
}

/// `cargo xtask test`: whatever happened, the tally is the last line.
pub(crate) fn command(arguments: &[&str]) -> ExitCode {
    let outcome = if arguments.is_empty() { run(&[]) } else { run_some(arguments) };
    let outcome = outcome.unwrap_or_else(|sentence| {
        println!("{sentence}");
        Outcome { passed: false, tally: Tally::of_a_run_that_never_began() }
    });
    println!("{}", outcome.tally);
    if outcome.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One run of `cargo test` with these arguments, which says everything while it happens.
fn run_some(arguments: &[&str]) -> Result<Outcome> {
    let servers = servers::prepare()?;
    let mut call = cargo(["test", "--no-fail-fast"]);
    call.args(program::scope_beside(arguments)).args(arguments).envs(servers.addresses());
    schedule::set_threads(&mut call, schedule::THREADS);
    let mut child =
        call.stdout(Stdio::piped()).spawn().map_err(|error| not_started(&call, &error))?;
    let output = child.stdout.take().expect("the output was asked for as a pipe");
    let mut tests = Tests::default();
    for line in BufReader::new(output).split(b'\n').map_while(std::result::Result::ok) {
        tests.tally.hear(&String::from_utf8_lossy(&line));
        print(&[&line[..], b"\n"].concat());
    }
    let status = child.wait().map_err(|error| format!("`cargo test` was lost: {error}."))?;
    tests.close("cargo test", status.success(), 0);
    Ok(Outcome { passed: !tests.failed, tally: tests.tally })
}

/// Builds every test, starts the servers, runs all tests with the given environment, and stops the servers.
pub(crate) fn run(environment: &[(&str, &str)]) -> Result<Outcome> {
    let programs = program::build_all()?;
    let servers = servers::prepare()?;
    let mut tests = Tests::default();
    for mut phase in schedule::phases(&programs) {
        for job in &mut phase.jobs {
            job.command.envs(environment.iter().copied()).envs(servers.addresses());
        }
        crowd::run(phase.jobs, phase.at_once, |ended| {
            tests.hear(&ended);
            let took = ended.took.as_secs_f64();
            print(format!("     Running {} ({took:.1} s)\n", ended.name).as_bytes());
            print(&ended.output);
        });
    }
    drop(servers);
    Ok(tests.end())
}

/// What the programs of a run have said so far.
#[derive(Default)]
struct Tests {
    tally: Tally,
    failed: bool,
}

impl Tests {
    /// Counts what a program said.
    fn hear(&mut self, ended: &Ended) {
        let before = self.tally.failed;
        for line in String::from_utf8_lossy(&ended.output).lines() {
            self.tally.hear(line);
        }
        self.close(&ended.name, ended.passed, before);
    }

    /// A program has ended; so many tests had failed before it began.
    fn close(&mut self, name: &str, passed: bool, before: u64) {
        if !passed && self.tally.failed == before {
            self.tally.hear_of_death(name);
        }
        self.failed |= !passed;
    }

    fn end(mut self) -> Outcome {
        if self.tally.passed == 0 && !self.failed {
            println!("No test ran, and there are tests: this counts as one failure.");
            self.tally.failed = 1;
            self.failed = true;
        }
        Outcome { passed: !self.failed, tally: self.tally }
    }
}

fn print(bytes: &[u8]) {
    // A reader who has gone away is no reason to stop testing.
    let _gone = std::io::stdout().write_all(bytes);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Ended, Tests};

    fn ended(output: &str, passed: bool) -> Ended {
        let (name, took) = ("a/tests/b.rs".into(), Duration::from_secs(1));
        Ended { name, took, output: output.into(), passed }
    }

    #[test]
    fn what_programs_say_is_counted() {
        let mut tests = Tests::default();
        tests.hear(&ended("test result: ok. 2 passed; 0 failed; 1 ignored\n", true));
        tests.hear(&ended("test result: FAILED. 1 passed; 3 failed; 0 ignored\n", false));
        let outcome = tests.end();
        assert_eq!(outcome.tally.to_string(), "3 passed, 3 failed, 1 skipped");
        assert!(!outcome.passed);
    }

    #[test]
    fn a_program_that_dies_is_one_failure_and_is_named() {
        let mut tests = Tests::default();
        tests.hear(&ended("test result: ok. 2 passed; 0 failed; 0 ignored\n", true));
        tests.hear(&ended("running 7 tests\n", false));
        let outcome = tests.end();
        assert_eq!(outcome.tally.to_string(), "2 passed, 1 failed, 0 skipped");
        assert_eq!(outcome.tally.closing(), "a/tests/b.rs did not end well, and did not say why");
    }

    #[test]
    fn a_run_without_any_test_has_failed() {
        let outcome = Tests::default().end();
        assert!(!outcome.passed);
        assert_eq!(outcome.tally.to_string(), "0 passed, 1 failed, 0 skipped");
    }
}
