//! `cargo xtask test`: runs the test programs in parallel, with every server that they need.

mod program;
mod runner;
mod schedule;

use std::io::Write as _;
use std::process::ExitCode;

use crate::counts::Counts;
use crate::process::{Result, cargo, run};
use crate::servers;

/// Runs every test and prints the counts last. With arguments: one `cargo test` with the servers.
pub(crate) fn command(arguments: &[&str]) -> Result<ExitCode> {
    if !arguments.is_empty() {
        let servers = servers::prepare()?;
        let mut call = cargo(["test", "--no-fail-fast"]);
        call.args(program::scope_beside(arguments)).args(arguments).envs(servers.addresses());
        schedule::set_threads(&mut call, schedule::THREADS);
        return run(&mut call).map(|()| ExitCode::SUCCESS);
    }
    let counts = run_all(&[])?;
    println!("{counts}");
    Ok(if counts.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds every test, starts the servers, runs all tests in this environment, stops the servers.
pub(crate) fn run_all(environment: &[(&str, &str)]) -> Result<Counts> {
    let programs = program::build_all()?;
    let servers = servers::prepare()?;
    let mut counts = Counts::default();
    for mut phase in schedule::phases(&programs) {
        for job in &mut phase.jobs {
            job.command.envs(environment.iter().copied()).envs(servers.addresses());
        }
        runner::run(phase.jobs, phase.at_once, |ended| {
            counts.add(&ended.name, &String::from_utf8_lossy(&ended.output), ended.passed);
            print(
                format!("     Running {} ({:.1} s)\n", ended.name, ended.took.as_secs_f64())
                    .as_bytes(),
            );
            print(&ended.output);
        });
    }
    Ok(counts.end())
}

fn print(bytes: &[u8]) {
    let _ = std::io::stdout().write_all(bytes); // A closed pipe must not end the run.
}
