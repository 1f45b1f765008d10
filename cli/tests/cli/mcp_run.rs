//! The tool `run` of `tenure mcp`: a command under a lock, which ends with the session.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::kit::{Store, eventually, field, is_alive};
use crate::mcp::{Agent, Answer, CLIENT};
use crate::run::pids;

/// A command that logs its pid and works on.
const WORK: &str = "echo pid $$ >>$LOG; while :; do sleep 0.01; done";

fn sh(script: &str) -> Value {
    json!({ "key": "k", "command": ["sh", "-c", script] })
}

/// Checks that the command ended with this exit code, under the lock.
fn ran(answer: &Answer, exit_code: u8) {
    answer.is(false, false);
    assert_eq!(
        (&answer["ran"], &answer["exit_code"]),
        (&json!(true), &json!(exit_code)),
        "{answer:?}"
    );
}

/// Waits until the command works, and returns its pid.
fn working(store: &Store) -> i32 {
    eventually("the command", || !pids(&store.log()).is_empty());
    pids(&store.log())[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_run_ends_its_command_and_releases_the_lock() {
    let store = Store::new();
    let agent = Agent::start(&store).await;
    let script = format!("trap 'echo asked >>$LOG; exit' TERM; {WORK}");
    let cancelled = agent.begin("run", sh(&script));
    working(&store);
    cancelled.abort();
    store.line_has("k", 0);
    // A run that was killed would not have asked its command to end.
    assert!(store.log().contains("asked"), "{}", store.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_runs_under_the_lock() {
    let store = Store::new();
    let agent = Agent::start(&store).await;
    let script = "cat; echo $TENURE_KEY; echo error >&2; tenure=$TENURE_TOKEN; exit 3";
    let answer = agent.call("run", sh(script)).await;
    ran(&answer, 3);
    assert_eq!(answer["output"], "k\nerror\n");
    assert_eq!(store.line("k").len(), 0);
    // These codes are also those of `tenure run`.
    for code in [75, 79, 64, 127] {
        ran(&agent.call("run", sh(&format!("exit {code}"))).await, code);
    }
    ran(&agent.call("run", sh("kill -KILL $$")).await, 137);
    let missing = json!({ "key": "k", "command": ["no-such-command"] });
    let answer = agent.call("run", missing).await;
    answer.stops("invalid");
    assert_eq!((&answer["ran"], &answer["output"]), (&json!(false), &json!("")), "{answer:?}");
    let here = json!({ "key": "-k", "command": ["pwd", "-P"], "cwd": store.path("store") });
    let answer = agent.call("run", here).await;
    ran(&answer, 0);
    assert!(answer["output"].as_str().unwrap().trim_end().ends_with("/store"), "{answer:?}");
    let nowhere = json!({ "key": "k", "command": ["true"], "cwd": store.path("nowhere") });
    agent.call("run", nowhere).await.stops("invalid");
    let long = agent.call("run", sh("head -c 100000 /dev/zero | tr '\\0' x; echo end")).await;
    ran(&long, 0);
    let output = long["output"].as_str().unwrap();
    assert_eq!((output.len(), &long["output_bytes_cut"]), (65_536, &json!(100_004 - 65_536)));
    assert!(output.ends_with("xend\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_lock_runs_nothing() {
    let store = Store::new();
    let (one, two) = (Agent::start(&store).await, Agent::start(&store).await);
    let taken = one.call("take", json!({ "keys": ["k"] })).await;
    for arguments in [
        json!({ "key": "k", "command": ["sh", "-c", "echo ran >>$LOG"] }),
        json!({ "key": "k", "command": ["sh", "-c", "echo ran >>$LOG"], "wait_ms": 1 }),
    ] {
        let busy = two.call("run", arguments).await;
        busy.is(false, false);
        assert_eq!((&busy["reason"], &busy["ran"]), (&json!("busy"), &json!(false)), "{busy:?}");
    }
    one.call("run", sh("echo ran >>$LOG")).await.stops("own_claim");
    assert_eq!(store.log(), "");
    let waits = json!({ "key": "k", "command": ["true"], "wait_ms": 600_000 });
    let killed = two.begin("run", waits.clone());
    store.line_has("k", 2);
    let owner = field(&store.line("k")[1], "owner").to_owned();
    let pid = owner.split(['[', ']']).nth(1).unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    let killed = killed.await.unwrap();
    assert!(killed["ran"] == json!(false) && killed["held"] == json!(false), "{killed:?}");
    let waiting = two.begin("run", waits);
    store.line_has("k", 2);
    one.call("drop", json!({ "claim": taken["claim"] })).await.is(false, false);
    ran(&waiting.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_lock_stops_the_command() {
    let store = Store::new();
    let agent = Agent::start(&store).await;
    let run = agent.begin("run", sh(WORK));
    let pid = working(&store);
    assert_eq!(field(&store.line("k")[0], "note"), CLIENT);
    store.output(&["break", "k"]);
    let lost = run.await.unwrap();
    lost.stops("lost");
    assert_eq!(lost["ran"], true);
    assert!(!is_alive(pid));
    assert_eq!(store.line("k").len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_its_time_or_its_call() {
    let store = Store::new();
    let agent = Agent::start(&store).await;
    let mut arguments = sh("trap '' TERM; echo pid $$ >>$LOG; while :; do sleep 0.01; done");
    arguments["timeout_ms"] = json!(3_000);
    agent.call("run", arguments).await.stops("stopped");
    for pid in pids(&store.log()) {
        eventually("the end of the command", || !is_alive(pid));
    }
    // The lock is not free before the last process has ended.
    let store = Store::new();
    let agent = Agent::start(&store).await;
    let mut arguments = sh("(trap '' TERM; exec sh -c 'echo pid $$ >>$LOG; sleep 600.125') & wait");
    arguments["timeout_ms"] = json!(3_000);
    agent.call("run", arguments).await.stops("stopped");
    let pids = pids(&store.log());
    assert!(store.line("k").is_empty() && !pids.is_empty());
    assert!(pids.iter().all(|pid| !is_alive(*pid)), "{pids:?}");
    let store = Store::new();
    let agent = Agent::start(&store).await;
    let run = agent.begin("run", sh(WORK));
    let pid = working(&store);
    run.abort();
    eventually("the end of the command", || !is_alive(pid));
    store.line_has("k", 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_ends_with_the_session() {
    for signal in [Signal::TERM, Signal::KILL] {
        let store = Store::new();
        let agent = Agent::start(&store).await;
        let _run = agent.begin("run", sh(WORK));
        let pid = working(&store);
        agent.signal(signal);
        eventually("the end of the command", || !is_alive(pid));
        store.line_has("k", 0);
        eventually("the end of the server", || !is_alive(agent.pid));
    }
}
