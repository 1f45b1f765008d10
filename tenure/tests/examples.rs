//! Every example runs to its end, without a server.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of the examples, which Cargo builds beside the tests.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples")
}

fn run(example: &str) -> String {
    let output = Command::new(folder().join(example)).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!printed.is_empty(), "an example prints something");
    printed.into_owned()
}

#[test]
fn a_nightly_job_runs_on_one_machine() {
    run("cron_once");
}

#[test]
fn there_is_one_leader_after_another() {
    run("leader");
}

#[test]
fn a_user_has_five_requests_a_second() {
    run("rate_limit");
}

#[test]
fn a_sleeper_writes_nothing() {
    run("fenced_write");
}

#[test]
fn tasks_are_cancelled_when_the_lock_is_lost() {
    run("cancellation");
}

#[test]
fn servers_restart_two_at_a_time() {
    run("rolling_restart");
}

#[test]
fn a_waiter_links_to_the_trace_of_its_holder() {
    let printed = run("opentelemetry");
    let trace = |begin: &str| {
        let line = printed.lines().find(|line| line.contains(begin));
        line.and_then(|line| line.rsplit(' ').next()).unwrap_or_else(|| panic!("{printed}"))
    };
    assert_eq!(trace("waited for trace"), trace("span `nightly`"), "{printed}");
    assert_ne!(trace("span `urgent`"), trace("span `nightly`"), "{printed}");
}
