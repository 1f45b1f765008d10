//! Every example runs to its end, without a server.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Cargo builds the examples beside the tests.
fn folder() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().and_then(Path::parent).unwrap().join("examples")
}

fn tell(story: &str) {
    let output = Command::new(folder().join(story)).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!told.is_empty(), "a story tells something");
}

#[test]
fn a_nightly_job_runs_on_one_machine() {
    tell("cron_once");
}

#[test]
fn there_is_one_leader_after_another() {
    tell("leader");
}

#[test]
fn a_user_has_five_requests_a_second() {
    tell("rate_limit");
}

#[test]
fn a_sleeper_writes_nothing() {
    tell("fenced_write");
}

#[test]
fn servers_restart_two_at_a_time() {
    tell("rolling_restart");
}
