//! `--as NAME`: a run that was restarted takes over from its dead predecessor.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tenure_servers::redis::Setup;

use crate::kit::{Store, field, redis};
use crate::run::pids;

#[test]
fn a_restarted_run_takes_over_from_its_dead_predecessor() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    // Without --as, the next run would wait for the whole lease, which this test does not survive.
    let words = |verb| [verb, "k", "--ttl", "20m", "--as", "indexer", "-v", "--"];
    for verb in ["run", "lead"] {
        let script = format!("echo {verb} $TENURE_TOKEN >>$LOG; sleep 600 & wait");
        let first = store.start(&[&words(verb)[..], &["sh", "-c", &script]].concat());
        store.log_has(verb);
        let line = store.line("k");
        assert!(field(&line[0], "owner").starts_with("indexer["), "{line:?}");
        // Another name, or a living process of this name, is no predecessor.
        let mut others = vec![store.start(&[verb, "k", "--as", "other", "--", "true"])];
        store.line_has("k", 2);
        others.push(store.start(&[verb, "k", "--as", "indexer", "--", "true"]));
        store.line_has("k", 3);
        drop(others);
        for entry in store.line("k").iter().skip(1) {
            store.end(&["break", "k", "--force", "--ticket", field(entry, "id")]);
        }
        store.line_has("k", 1);
        first.signal(Signal::KILL);
        assert_eq!(first.end().code, 1009);
        let next = store
            .end(&[&words(verb)[..], &["sh", "-c", "echo again $TENURE_TOKEN >>$LOG"]].concat());
        assert!(next.code == 0 && next.err.contains("which has ended, is removed"), "{next:?}");
        let log = store.log();
        let tokens: Vec<u64> =
            log.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(tokens.is_sorted(), "the later run has the higher token: {log}");
        std::fs::remove_file(store.path("log")).unwrap();
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
