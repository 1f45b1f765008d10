//! `--as NAME`: a run that was restarted takes over from its dead predecessor.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tenure_servers::have;
use tenure_servers::redis::{Masters, REDIS, Setup};

use crate::kit::{End, Running, Store, end, eventually, field, redis};
use crate::run::pids;

/// `tenure` on a machine, or in a container, with this directory for state.
fn tenure(store: &Store, state: &str, words: &[&str]) -> Command {
    let mut command = store.tenure(words);
    command.env("XDG_STATE_HOME", store.path(state));
    command
}

fn ends(store: &Store, state: &str, words: &[&str]) -> End {
    end(&mut tenure(store, state, words))
}

#[test]
fn a_restarted_run_takes_over_from_its_dead_predecessor() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    // Without --as, the next run would wait for the whole lease, which this test does not survive.
    let words = |verb| [verb, "k", "--ttl", "20m", "--as", "indexer", "-v", "--"];
    for verb in ["run", "lead"] {
        let script = format!("echo {verb} $TENURE_TOKEN >>$LOG; sleep 600 & wait");
        let first = [&words(verb)[..], &["sh", "-c", &script]].concat();
        let first = Running::of(&mut tenure(&store, "state", &first));
        store.log_has(verb);
        let line = store.line("k");
        assert!(field(&line[0], "owner").starts_with("indexer["), "{line:?}");
        // Another name, or a living process of this name, is no predecessor.
        let mut others = Vec::new();
        for (count, name) in [(2, "other"), (3, "indexer")] {
            let words = [verb, "k", "--as", name, "--", "true"];
            others.push(Running::of(&mut tenure(&store, "state", &words)));
            store.line_has("k", count);
        }
        drop(others);
        for entry in store.line("k").iter().skip(1) {
            store.end(&["break", "k", "--force", "--ticket", field(entry, "id")]);
        }
        store.line_has("k", 1);
        first.signal(Signal::KILL);
        // Its command and its keeper have ended, too: they have its pipes.
        assert_eq!(first.end().code, 1009);
        // A container may have the same host name, and knows nothing of the run.
        let elsewhere =
            ends(&store, "elsewhere", &["run", "-n", "k", "--as", "indexer", "--", "true"]);
        let said = elsewhere.err.contains("may still run: its ticket stays until its lease ends");
        assert!(elsewhere.code == 75 && said, "{elsewhere:?}");
        let next = [&words(verb)[..], &["sh", "-c", "echo again $TENURE_TOKEN >>$LOG"]].concat();
        let next = ends(&store, "state", &next);
        assert!(next.code == 0 && next.err.contains("which has ended, is removed"), "{next:?}");
        let log = store.log();
        let tokens: Vec<u64> =
            log.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(tokens.is_sorted(), "the later run has the higher token: {log}");
        std::fs::remove_file(store.path("log")).unwrap();
    }
}

#[test]
fn a_command_that_runs_on_keeps_its_lease_from_a_later_run_of_its_name() {
    if !have(&[REDIS]) {
        return;
    }
    let (server, masters) = (Setup::new().start().unwrap(), Masters::start(3).unwrap());
    for url in [server.url(), masters.url() + "?after_restart=trust&timeout=5s"] {
        let store = Store::at(url);
        // It has no variable of tenure, as a process of another user seems to have none.
        let script = "echo pid $$ >>$LOG; exec env -i sleep 600.25";
        let words = ["run", "k", "--ttl", "20m", "--as", "job", "--on-lost", "warn", "--"];
        let mut first = tenure(&store, "state", &[&words[..], &["sh", "-c", script]].concat());
        let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        store.log_has("pid");
        first.kill().unwrap();
        first.wait().unwrap();
        let words = ["run", "-n", "k", "--as", "job", "--", "true"];
        let next = ends(&store, "state", &words);
        let pid = Pid::from_raw(pids(&store.log())[0]).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        assert!(next.code == 75 && next.err.contains("may still run"), "{next:?}");
        eventually("the end of the keeper", || ends(&store, "state", &words).code == 0);
    }
}

#[test]
fn a_command_that_runs_on_keeps_its_lock_from_a_later_run_of_its_name() {
    let store = Store::new();
    // It has no variable of tenure, and its keeper waits for it.
    let script = "echo pid $$ >>$LOG; exec env -i sleep 600.125";
    let words = ["run", "k", "--as", "job", "--on-lost", "warn", "--", "sh", "-c", script];
    // The command and its keeper outlive the first run, and would keep its pipes.
    let mut first = store.tenure(&words);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    store.log_has("pid");
    first.kill().unwrap();
    first.wait().unwrap();
    let next = store.end(&["run", "-n", "k", "--as", "job", "--", "true"]);
    let pid = Pid::from_raw(pids(&store.log())[0]).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    assert_eq!(next.code, 75, "{next:?}");
}
