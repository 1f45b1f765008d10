//! The schedule: which test programs run side by side, and which parts of them must be alone.

use std::num::NonZero;
use std::process::Command;
use std::thread::available_parallelism;

use super::crowd::Job;
use super::program::{EVERYTHING, Program};
use crate::process::cargo;

/// So many programs run at the same time for each core: most of them wait for a lease, a process or a server.
const AT_ONCE_PER_CORE: usize = 2;
/// So many tests of one program run at the same time.
pub(crate) const THREADS: &str = "6";
/// A program whose tests wait for nearly all of their time has so many threads.
const THREADS_TO_WAIT: &str = "16";

/// Programs that take longest, the longest first: what begins last should end soon. Whether they only wait.
const LONG: [(&str, bool); 6] = [
    // A thousand and more cases on real servers, each of which lets lives of a second pass.
    ("engines/redis/tests/conformance.rs", true),
    ("engines/redis/tests/faults.rs", false),
    ("conformance/tests/simulation.rs", false),
    ("cli/tests/cli/main.rs", false),
    ("conformance/tests/broken_holders.rs", false),
    ("engines/file/tests/held.rs", false),
];

/// Tests that must be alone on the machine, by the program and the beginning of their names, and why.
const ALONE: [(&str, &[&str]); 1] = [
    // Ten thousand locks are renewed in time, and a flushed server is told of its scripts before the next caller asks:
    // both are true of a machine that has the time, and tell nothing of one that has not.
    ("engines/redis/tests/faults.rs", &["crowds::", "storm::"]),
];

/// Jobs that run so many at a time. The next phase begins when all have ended.
pub(crate) struct Phase {
    pub at_once: usize,
    pub jobs: Vec<Job>,
}

/// Everything side by side, and then one after the other what must be alone.
pub(crate) fn phases(programs: &[Program]) -> Vec<Phase> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let mut crowd: Vec<_> = programs.iter().map(beside_others).collect();
    // The doc tests are built while they run, so that the processor has work while others wait.
    crowd.push(doc_tests());
    crowd.sort_by_key(|job| place(&job.name));
    let alone = programs.iter().filter_map(alone).collect();
    vec![
        Phase { at_once: cores * AT_ONCE_PER_CORE, jobs: crowd },
        Phase { at_once: 1, jobs: alone },
    ]
}

/// Whose turn it is: the long ones, and then all others in the order in which cargo built them.
fn place(name: &str) -> usize {
    LONG.iter().position(|(long, _)| *long == name).unwrap_or(LONG.len())
}

fn beside_others(program: &Program) -> Job {
    let mut command = program.command();
    for name in tests_alone(&program.source) {
        command.args(["--skip", name]);
    }
    let waits = LONG.contains(&(program.source.as_str(), true));
    set_threads(&mut command, if waits { THREADS_TO_WAIT } else { THREADS });
    Job { name: program.source.clone(), command }
}

/// The tests of this program that must be alone, if it has any.
fn alone(program: &Program) -> Option<Job> {
    let names = tests_alone(&program.source);
    if names.is_empty() {
        return None;
    }
    let mut command = program.command();
    command.args(names);
    set_threads(&mut command, THREADS);
    Some(Job { name: format!("{} ({}, alone)", program.source, names.join(" ")), command })
}

fn tests_alone(source: &str) -> &'static [&'static str] {
    ALONE.iter().find(|(of, _)| *of == source).map_or(&[], |(_, names)| names)
}

fn doc_tests() -> Job {
    let mut command = cargo(["test", "--doc", "--no-fail-fast"]);
    command.args(EVERYTHING);
    set_threads(&mut command, THREADS);
    Job { name: "doc tests".into(), command }
}

/// Whoever sets the number for everything is obeyed.
pub(crate) fn set_threads(command: &mut Command, threads: &str) {
    const VARIABLE: &str = "RUST_TEST_THREADS";
    if std::env::var_os(VARIABLE).is_none() {
        command.env(VARIABLE, threads);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ALONE, LONG, phases};
    use crate::testing::program::Program;

    fn programs() -> Vec<Program> {
        let sources = ["core/src/lib.rs", "engines/redis/tests/faults.rs", LONG[0].0];
        sources.into_iter().map(|source| Program::at(source, Path::new("/nowhere"))).collect()
    }

    fn words(command: &std::process::Command) -> Vec<String> {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn every_program_runs_and_the_longest_begins_first() {
        let phases = phases(&programs());
        let names: Vec<_> = phases[0].jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, [LONG[0].0, LONG[1].0, "core/src/lib.rs", "doc tests"]);
    }

    #[test]
    fn what_must_be_alone_is_left_out_of_the_crowd_and_runs_behind_it() {
        let [crowd, alone] = &phases(&programs())[..] else { panic!("there are two phases") };
        assert_eq!(words(&crowd.jobs[1].command), ["--skip", "crowds::", "--skip", "storm::"]);
        assert_eq!((alone.at_once, alone.jobs.len()), (1, 1));
        assert_eq!(words(&alone.jobs[0].command), ["crowds::", "storm::"]);
    }

    #[test]
    fn every_name_of_the_schedule_is_a_test_program_of_this_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask has a parent");
        for source in LONG.iter().map(|(source, _)| source).chain(ALONE.iter().map(|(of, _)| of)) {
            assert!(root.join(source).is_file(), "{source} is not there any more");
        }
    }
}
