//! `tenure once`: one success for each slot, whatever fails, is killed, or comes late.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::kit::{End, Store, eventually, field};

/// Appends the slot to the log, and waits if `hold` exists.
const JOB: &str =
    "echo ran $TENURE_SLOT $TENURE_TOKEN >>$LOG; while [ -e $LOG.hold ]; do sleep 0.05; done";

fn once<'a>(options: &[&'a str], script: &'a str) -> Vec<&'a str> {
    [&["once", "nightly"], options, &["--", "sh", "-c", script]].concat()
}

fn runs(store: &Store) -> usize {
    store.log().lines().filter(|line| line.starts_with("ran ")).count()
}

fn slots(store: &Store) -> Vec<String> {
    let listed = store.output(&["--json", "once", "nightly", "--list"]);
    listed.lines().map(String::from).collect()
}

fn is_over(end: &End) -> bool {
    end.code == 0 && end.err.contains("succeeded at") && end.err.contains("run by sh[")
}

#[test]
fn a_night_of_three_crons_runs_once() {
    three_crons(&Store::new());
}

/// Three callers at once, and a late one: one of them runs.
pub(crate) fn three_crons(store: &Store) {
    let words = once(&["--slot", "night 1"], JOB);
    let crons: Vec<_> = (0..3).map(|_| store.start(&words)).collect();
    let ends: Vec<_> = crons.into_iter().map(crate::kit::Running::end).collect();
    assert_eq!(runs(store), 1, "{ends:?}");
    assert_eq!(ends.iter().filter(|end| is_over(end)).count(), 2, "{ends:?}");
    assert!(ends.iter().all(|end| end.code == 0), "{ends:?}");
    let late = store.end(&words);
    assert!(is_over(&late) && late.err.contains("night 1"), "{late:?}");
    assert_eq!(store.end(&[&["--quiet"], &words[..]].concat()).err, "");
    assert_eq!(runs(store), 1);
    assert_eq!(store.end(&once(&["--slot", "night 2"], JOB)).code, 0);
    assert_eq!(runs(store), 2, "the next night runs");
}

#[test]
fn a_caller_during_the_run_waits_or_leaves() {
    let store = Store::new();
    let hold = store.path("log.hold");
    std::fs::write(&hold, "").unwrap();
    let words = once(&["--slot", "1"], JOB);
    let first = store.start(&words);
    store.log_has("ran 1");
    let busy = store.end(&once(&["--slot", "1", "-n"], JOB));
    assert!(busy.code == 75 && busy.err.contains("busy"), "{busy:?}");
    assert_eq!(store.end(&once(&["--slot", "1", "-n", "-E", "3"], JOB)).code, 3);
    assert_eq!(store.end(&once(&["--slot", "1", "-w", "100ms"], JOB)).code, 75);
    let waits = store.start(&words);
    store.line_has("nightly", 2);
    std::fs::remove_file(&hold).unwrap();
    assert_eq!(first.end().code, 0);
    let waited = waits.end();
    assert!(is_over(&waited), "{waited:?}");
    assert_eq!(runs(&store), 1);
    assert!(is_over(&store.end(&once(&["--slot", "1", "-n"], JOB))), "it is over, and not busy");
}

#[test]
fn a_failed_run_frees_its_slot_until_its_retries_are_used_up() {
    let store = Store::new();
    let fails = once(&["--slot", "1", "--retry", "2"], "echo ran $TENURE_SLOT >>$LOG; exit 7");
    for _ in 0..3 {
        assert_eq!(store.end(&fails).code, 7);
    }
    let given_up = store.end(&fails);
    assert!(given_up.code == 1 && given_up.err.contains("given up after 3 runs"), "{given_up:?}");
    assert_eq!(runs(&store), 3);
    assert_eq!(
        (field(&slots(&store)[0], "state"), field(&slots(&store)[0], "attempts")),
        ("failed", "3")
    );
    assert_eq!(store.end(&["once", "nightly", "--reset", "1"]).code, 0);
    assert_eq!(store.end(&once(&["--slot", "1", "--retry", "fail"], JOB)).code, 0);
    assert_eq!(runs(&store), 4);
    assert_eq!(store.end(&once(&["--slot", "2", "--retry", "fail"], "exit 7")).code, 7);
    assert_eq!(store.end(&once(&["--slot", "2", "--retry", "fail"], JOB)).code, 1);
    assert_eq!(store.end(&once(&["--slot", "2"], JOB)).code, 0, "without a limit it runs again");
}

#[test]
fn a_killed_run_frees_its_slot_for_the_caller_that_waits() {
    a_killed_run(&Store::new());
}

/// `tenure` is killed in the middle of a run: the next caller runs the slot.
pub(crate) fn a_killed_run(store: &Store) {
    let hold = store.path("log.hold");
    std::fs::write(&hold, "").unwrap();
    let words = once(&["--slot", "1", "--ttl", "2s"], JOB);
    let first = store.start(&words);
    store.log_has("ran 1");
    let next = store.start(&words);
    store.line_has("nightly", 2);
    first.signal(Signal::KILL);
    assert_eq!(first.end().code, 1009);
    eventually("the slot runs again", || runs(store) == 2);
    std::fs::remove_file(&hold).unwrap();
    assert_eq!(next.end().code, 0);
    let slot = slots(store).remove(0);
    assert_eq!((field(&slot, "state"), field(&slot, "attempts")), ("succeeded", "2"));
    let log = store.log();
    let tokens: Vec<u64> =
        log.lines().map(|line| line.split(' ').nth(2).unwrap().parse().unwrap()).collect();
    assert!(tokens[0] < tokens[1], "the later run has the higher token: {log}");
}

#[test]
fn a_run_that_loses_its_lock_does_not_count() {
    let store = Store::new();
    std::fs::write(store.path("log.hold"), "").unwrap();
    let run = store.start(&once(&["--slot", "1"], JOB));
    store.log_has("ran 1");
    assert_eq!(store.end(&["break", "nightly"]).code, 0);
    let end = run.end();
    assert!(end.code == 79 && end.err.contains("lost"), "{end:?}");
    assert_eq!(field(&slots(&store)[0], "state"), "begun");
    std::fs::remove_file(store.path("log.hold")).unwrap();
    assert_eq!(store.end(&once(&["--slot", "1"], JOB)).code, 0);
    assert_eq!(runs(&store), 2);
}

#[test]
fn a_signal_during_the_run_makes_it_a_failed_one() {
    let store = Store::new();
    std::fs::write(store.path("log.hold"), "").unwrap();
    let run = store.start(&once(&["--slot", "1"], JOB));
    store.log_has("ran 1");
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 1015);
    assert_eq!(field(&slots(&store)[0], "state"), "failed");
}

#[test]
fn slots_are_listed_and_forgotten() {
    let store = Store::unmade();
    assert_eq!(store.end(&["once", "nightly", "--list"]).code, 69, "there is no store yet");
    let store = Store::new();
    for slot in ["one", "two", "three"] {
        assert_eq!(store.end(&once(&["--slot", slot, "--keep", "2d"], JOB)).code, 0);
    }
    let table = store.output(&["once", "nightly", "--list"]);
    let lines: Vec<_> = table.lines().collect();
    assert!(
        lines.len() == 4 && lines[0].starts_with("SLOT") && lines[1].starts_with("one"),
        "{table}"
    );
    assert!(lines[1].contains("succeeded") && lines[1].contains("1d"), "{table}");
    let objects = slots(&store);
    assert_eq!(
        crate::kit::fields(&objects[0]),
        ["key", "slot", "state", "attempts", "at", "owner", "token", "kept_until"]
    );
    let unknown = store.end(&["once", "nightly", "--reset", "four"]);
    assert!(unknown.code == 1 && unknown.err.contains("four"), "{unknown:?}");
    assert_eq!(store.end(&["once", "nightly", "--reset", "two"]).code, 0);
    assert_eq!(slots(&store).len(), 2);
    assert_eq!(store.end(&["once", "nightly", "--reset-all"]).code, 0);
    assert_eq!(slots(&store).len(), 0);
    assert_eq!(store.line("nightly").len(), 0);
}

#[test]
fn a_schedule_names_its_slots() {
    let store = Store::new();
    let said = |options: &[&str]| store.output(&once(options, "echo $TENURE_SLOT"));
    let year = said(&["--cron", "0 0 1 1 *"]);
    assert!(year.trim().ends_with("-01-01T00:00:00Z") || year.contains("-12-31T"), "{year}");
    let again = store.end(&once(&["--cron", "0 0 1 1 *"], "echo again"));
    assert!(is_over(&again) && again.out.is_empty(), "{again:?}");
    let epoch = said(&["--every", "36500d"]);
    assert_eq!(epoch.trim(), "1970-01-01T00:00:00Z");
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let store = Store::new();
    let refused = |words: &[&str], about: &str| {
        let end = store.end(words);
        assert!(end.code == 64 && end.err.contains(about), "{words:?}: {end:?}");
    };
    refused(&once(&[], JOB), "--slot");
    refused(&["once", "nightly", "--slot", "1"], "CMD");
    refused(&once(&["--cron", "61 * * * *"], JOB), "--cron");
    refused(&once(&["--every", "1500ms"], JOB), "whole seconds");
    refused(&once(&["--slot", ""], JOB), "slot");
    refused(&once(&["--slot", "1", "--keep", "0s"], JOB), "0");
    refused(&once(&["--slot", "1", "--retry", "never"], JOB), "fail");
    refused(&once(&["--slot", "1", "--every", "1h"], JOB), "--every");
    refused(&[&["--json"], &once(&["--slot", "1"], JOB)[..]].concat(), "JSON");
    refused(&["once", "nightly", "--list", "--slot", "1"], "--slot");
    assert_eq!(runs(&store), 0);
}

#[test]
fn a_slot_whose_machines_are_killed_and_stopped_succeeds_once() {
    machines_that_die(&Store::new(), 24, Duration::from_millis(200), || {});
}

/// Slots of three machines, each of which runs every slot. One of their processes is killed in each
/// slot, or stopped for `pause`, and `trouble` happens in the middle.
pub(crate) fn machines_that_die(store: &Store, count: usize, pause: Duration, trouble: impl Fn()) {
    // The effect is written with the slot's name: a run that was killed before it has none.
    let job = "sleep 0.0$((TENURE_TOKEN % 5)); echo ran $TENURE_SLOT >>$LOG";
    for slot in 0..count {
        let name = slot.to_string();
        let words = once(&["--slot", &name, "--ttl", "2s", "-w", "60s"], job);
        let mut machines: Vec<_> = (0..3).map(|_| store.start(&words)).collect();
        let victim = machines.remove(slot % 3);
        // At any point of its life, from the start of the process to its end.
        thread::sleep(Duration::from_millis((slot as u64 * 37) % 150));
        let is_killed = slot % 2 == 0;
        victim.signal(if is_killed { Signal::KILL } else { Signal::STOP });
        if slot == count / 2 {
            trouble();
        }
        if !is_killed {
            thread::sleep(pause);
            victim.signal(Signal::CONT);
        }
        for machine in machines {
            let end = machine.end();
            // A restart of the store may cost a run its lock, or end the wait.
            let is_expected = end.code == 0 || slot == count / 2 && [79, 69].contains(&end.code);
            assert!(is_expected, "slot {slot}: {end:?}");
        }
        eventually("a later caller finds the slot done", || store.end(&words).code == 0);
        // It was killed, or it succeeded, came late, or lost its lock.
        let end = victim.end();
        assert!([1009, 0, 79, 69].contains(&end.code), "slot {slot}: {end:?}");
    }
    let mut objects = slots(store);
    objects.retain(|object| !field(object, "slot").starts_with("night"));
    assert_eq!(objects.len(), count, "no slot is lost");
    assert!(objects.iter().all(|slot| field(slot, "state") == "succeeded"), "{objects:?}");
    let log = store.log();
    for slot in 0..count {
        let runs = log.lines().filter(|line| *line == format!("ran {slot}")).count();
        // A run that was killed between its end and the write of its success runs again.
        assert!(runs == 1 || runs == 2, "slot {slot} ran {runs} times");
        let attempts = objects.iter().find(|object| field(object, "slot") == slot.to_string());
        let attempts: usize = field(attempts.unwrap(), "attempts").parse().unwrap();
        assert!(runs <= attempts, "slot {slot}: {runs} runs of {attempts} attempts");
    }
}

#[test]
fn a_lock_is_kept_for_at_least_a_time() {
    let store = Store::new();
    let run = store.start(&[
        "run",
        "k",
        "--at-least",
        "600s",
        "--",
        "sh",
        "-c",
        "echo ended >>$LOG; exit 3",
    ]);
    store.log_has("ended");
    let busy = store.end(&["run", "-n", "k", "--", "true"]);
    assert_eq!(busy.code, 75, "{busy:?}");
    run.signal(Signal::TERM);
    assert_eq!(run.end().code, 3, "a signal ends the wait, and the code is that of the command");
    assert_eq!(store.output(&["run", "-n", "k", "--at-least", "100ms", "--", "true"]), "");
    let run =
        store.start(&["run", "k", "--at-least", "600s", "--", "sh", "-c", "echo again >>$LOG"]);
    store.log_has("again");
    assert_eq!(store.end(&["break", "k", "--wait"]).code, 0);
    let end = run.end();
    assert!(end.code == 79 && end.err.contains("--at-least"), "{end:?}");
}
