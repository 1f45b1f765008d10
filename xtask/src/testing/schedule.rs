//! The schedule: which test programs run in parallel, and which tests must run alone.

use std::num::NonZero;
use std::process::Command;
use std::thread::available_parallelism;

use super::program::{EVERYTHING, Program};
use super::runner::Job;
use crate::process::cargo;

/// Tests of one program that run in parallel.
pub(crate) const THREADS: &str = "6";
/// Folders whose programs run behind those of `WAIT`: they drive real servers and processes.
const WITH_SERVERS: [&str; 3] = ["engines/", "fences/", "cli/"];
/// Programs that mostly wait for leases to expire, with the number of tests that run in parallel,
/// the longest first. etcd gets fewer: three members lose their quorum when sixteen heavy cases
/// share two cores. The programs that break servers pass at a load of 40, so they may share the
/// machine.
const WAIT: [(&str, &str); 17] = [
    ("engines/mongodb/tests/conformance.rs", "20"),
    ("engines/zookeeper/tests/faults.rs", THREADS),
    ("engines/etcd/tests/faults.rs", THREADS),
    ("engines/toy/tests/conformance.rs", "20"),
    ("engines/queue/tests/conformance.rs", "20"),
    ("engines/mongodb-documents/tests/documents.rs", "12"),
    ("engines/mongodb-documents/tests/document_cases.rs", "16"),
    ("engines/mysql/tests/conformance.rs", "16"),
    ("engines/postgres/tests/conformance.rs", "20"),
    ("engines/zookeeper/tests/conformance.rs", "20"),
    ("engines/etcd/tests/conformance.rs", "10"),
    ("engines/redis/tests/conformance.rs", "20"),
    ("engines/postgres/tests/faults.rs", THREADS),
    ("cli/tests/cli/main.rs", THREADS),
    ("engines/mysql/tests/faults.rs", THREADS),
    ("engines/mongodb/tests/faults.rs", THREADS),
    ("engines/redis/tests/faults.rs", THREADS),
];

/// The longest of the other programs, the longest first: a long one that starts last delays the
/// end.
const LONG: [&str; 2] = ["conformance/tests/simulation.rs", "conformance/tests/broken_holders.rs"];

/// Tests that must run alone, by program and prefix, each with the reason.
const ALONE: [(&str, &[&str]); 6] = [
    // 10,000 locks are renewed in time, and a flushed server gets its scripts before the next call:
    // both need a machine that is not busy.
    ("engines/redis/tests/faults.rs", &["crowds::", "storm::"]),
    ("engines/mysql/tests/faults.rs", &["sql::ten_thousand"]),
    ("engines/postgres/tests/faults.rs", &["sql::ten_thousand"]),
    // Forty clients renew leases of 3 s while one of three members stands still.
    (
        "engines/etcd/tests/faults.rs",
        &["members::holders_", "members::a_follower_that_stands_still"],
    ),
    // A browser needs several seconds of a core to start.
    ("cli/tests/cli/main.rs", &["browser::"]),
    // 1,000 waiters, and the thousands of holders of a full session, renew in time.
    ("engines/zookeeper/tests/faults.rs", &["crowds::"]),
];

/// Jobs that run `at_once` at a time. The next phase starts when all have ended.
pub(crate) struct Phase {
    pub at_once: usize,
    pub jobs: Vec<Job>,
}

/// Three phases. First the quick programs, one for each core; then the programs with servers, one
/// for each core, those that wait first, and the doc tests; last, one at a time, the tests that
/// must be alone.
pub(crate) fn phases(programs: &[Program]) -> Vec<Phase> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let (waiting, quick): (Vec<_>, Vec<_>) =
        programs.iter().partition(|program| waits(&program.source));
    let (short, others): (Vec<_>, Vec<_>) =
        quick.into_iter().partition(|program| has_servers(&program.source));
    let mut waiting: Vec<_> = waiting.into_iter().map(without_alone).collect();
    waiting.sort_by_key(|job| WAIT.iter().position(|(of, _)| *of == job.name));
    let mut side_by_side: Vec<_> = others.into_iter().map(without_alone).collect();
    side_by_side.sort_by_key(|job| place(&job.name));
    waiting.extend(short.into_iter().map(without_alone));
    waiting.push(doc_tests());
    vec![
        Phase { at_once: cores, jobs: side_by_side },
        Phase { at_once: cores, jobs: waiting },
        Phase { at_once: 1, jobs: programs.iter().filter_map(alone).collect() },
    ]
}

/// Whether this program mostly waits, so that another can share the machine.
fn waits(source: &str) -> bool {
    WAIT.iter().any(|(of, _)| *of == source)
}

/// The place in the order: the long programs first, the others as cargo built them.
fn place(name: &str) -> usize {
    LONG.iter().position(|long| *long == name).unwrap_or(LONG.len())
}

fn has_servers(source: &str) -> bool {
    WITH_SERVERS.iter().any(|begin| source.starts_with(begin))
}

/// The number of tests of this program that run in parallel.
fn threads(source: &str) -> &'static str {
    WAIT.iter().find(|(of, _)| *of == source).map_or(THREADS, |(_, threads)| threads)
}

fn without_alone(program: &Program) -> Job {
    let mut command = program.command();
    for name in tests_alone(&program.source) {
        command.args(["--skip", name]);
    }
    set_threads(&mut command, threads(&program.source));
    Job { name: program.source.clone(), command }
}

/// A job for the tests of this program that must be alone, if it has any.
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

/// Sets the number of parallel tests, unless the caller's environment does.
pub(crate) fn set_threads(command: &mut Command, threads: &str) {
    const VARIABLE: &str = "RUST_TEST_THREADS";
    if std::env::var_os(VARIABLE).is_none() {
        command.env(VARIABLE, threads);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{ALONE, LONG, Phase, WAIT, WITH_SERVERS, phases};
    use crate::testing::program::Program;

    const IDLE: &str = "engines/file/tests/idle.rs";
    const FAULTS: &str = "engines/redis/tests/faults.rs";

    fn programs() -> Vec<Program> {
        let sources = ["core/src/lib.rs", IDLE, LONG[0], FAULTS, WAIT[0].0];
        sources.into_iter().map(|source| Program::at(source, Path::new("/nowhere"))).collect()
    }

    fn words(command: &std::process::Command) -> Vec<String> {
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn every_program_runs_and_the_longest_begins_first() {
        let names =
            |phase: &Phase| phase.jobs.iter().map(|job| job.name.clone()).collect::<Vec<_>>();
        let phases = phases(&programs());
        assert_eq!(names(&phases[0]), [LONG[0], "core/src/lib.rs"]);
        let alone = format!("{FAULTS} (crowds:: storm::, alone)");
        assert_eq!(names(&phases[1]), [WAIT[0].0, FAULTS, IDLE, "doc tests"]);
        assert_eq!(names(&phases[2]), [&*alone]);
    }

    #[test]
    fn tests_that_must_be_alone_are_left_out_of_their_program_and_run_last() {
        let [_, waiting, one_by_one] = &phases(&programs())[..] else {
            panic!("there are three phases")
        };
        let faults = &waiting.jobs[1].command;
        assert_eq!(words(faults), ["--skip", "crowds::", "--skip", "storm::"]);
        let jobs = &one_by_one.jobs;
        assert_eq!((one_by_one.at_once, jobs.len()), (1, 1));
        assert_eq!(words(&jobs[0].command), ["crowds::", "storm::"]);
    }

    #[test]
    fn every_name_of_the_schedule_is_a_test_program_of_this_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask has a parent");
        let wait = WAIT.iter().map(|(of, _)| of);
        for source in LONG.iter().chain(wait).chain(ALONE.iter().map(|(of, _)| of)) {
            assert!(root.join(source).is_file(), "{source} is not there any more");
        }
        for begin in WITH_SERVERS {
            assert!(root.join(begin).is_dir(), "{begin} is not there any more");
        }
    }
}
