//! A lost lease, in each possible way: all processes of the command are gone when the next holder
//! begins.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use tenure_servers::redis::Setup;

use crate::keeper::RUNAWAY;
use crate::kit::{End, Running, Store, eventually, field, is_alive, redis};
use crate::lead::WORK;
use crate::run::{DESERTER, STUBBORN, begins_after_all_are_gone, pids};

/// Two processes that ignore TERM and log that they run, every 10 ms.
const BEATING: &str = "trap '' TERM; \
    beat() { while :; do echo beat >>$LOG; sleep 0.01; done; }; \
    beat & echo pid $! >>$LOG; echo pid $$ >>$LOG; beat";

/// Logs its start time by this machine's clock, which Redis uses, too.
const NEXT: &str = "echo next $(date +%s%N) >>$LOG";

/// The ttl of the beating commands.
const TTL: Duration = Duration::from_secs(4);
/// Maximum age of a fresh renewal.
const FRESH: Duration = Duration::from_millis(300);
/// Time between the arrival of the next holder and the end of the lease.
const AT_THE_DOOR: Duration = Duration::from_millis(300);

/// Starts a command that beats, under a lease of four seconds.
fn beating(store: &Store) -> (Running, Vec<i32>) {
    let words = ["run", "k", "--ttl", "4s", "--kill-after", "300ms", "--", "sh", "-c", BEATING];
    let run = store.start(&words);
    eventually("two processes", || pids(&store.log()).len() == 2);
    store.log_has("beat");
    let pids = pids(&store.log());
    (run, pids)
}

/// Starts the next holder.
fn next(store: &Store) -> Running {
    store.start(&["--quiet", "run", "k", "--", "sh", "-c", NEXT])
}

/// Checks that the next holder began after the others had ended. Returns when it began.
fn is_alone(store: &Store, next: Running, others: &[i32]) -> Duration {
    let end = next.end();
    assert_eq!((end.code, end.err.as_str()), (0, ""));
    eventually("the end of the others", || !others.iter().any(|pid| is_alive(*pid)));
    let log = store.log();
    let (_, after) = log.split_once("next ").unwrap();
    assert_eq!(after.lines().count(), 1, "a process ran beside the next holder: {after}");
    Duration::from_nanos(after.trim().parse().unwrap())
}

/// Checks that it ended because its store did not answer.
fn is_lost(end: &End) {
    assert_eq!(end.code, 79, "{end:?}");
    assert!(
        end.err.starts_with("tenure: `k`: the lock is ") && end.err.contains("lost: the "),
        "{end:?}"
    );
    assert!(end.err.contains("command"), "{end:?}");
}

/// The lease cannot end before this time.
fn lease_end(store: &Store) -> Duration {
    let asked = now();
    asked + expires_in(store)
}

/// The remaining lease of the front of the line.
fn expires_in(store: &Store) -> Duration {
    let front = store.line("k").remove(0);
    Duration::from_millis(field(&front, "expires_in_ms").parse().unwrap())
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

#[test]
fn a_store_that_forgets_ends_the_command() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let (run, pids) = beating(&store);
    server.command(&["FLUSHALL"]).unwrap();
    let end = run.end();
    assert_eq!(end.code, 79, "{end:?}");
    let sentence = "tenure: `k`: the lock is lost: its ticket was removed by a break, by an operator of \
        the store, or by a store that lost its data; the command is stopped\n";
    assert!(end.err.starts_with(sentence), "{}", end.err);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_broken_holder_reports_the_break() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let (run, pids) = beating(&store);
    store.output(&["break", "k"]);
    let end = run.end();
    assert_eq!(end.code, 79, "{end:?}");
    let sentence = "tenure: `k`: the lock is lost: `tenure break` or a program asked this holder to leave; \
        the command is stopped\n";
    assert!(end.err.starts_with(sentence), "{}", end.err);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_frozen_store_ends_the_command_before_the_lease_is_over() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let (run, pids) = beating(&store);
    // The lease has just been renewed, and is not renewed again.
    eventually("a renewal", || expires_in(&store) > TTL.saturating_sub(FRESH));
    server.freeze().unwrap();
    let ends = now() + TTL;
    // The next holder waits already when the lease ends.
    thread::sleep(ends.saturating_sub(now() + AT_THE_DOOR));
    let next = next(&store);
    thread::sleep(ends.saturating_sub(now()));
    server.thaw().unwrap();
    is_alone(&store, next, &pids);
    is_lost(&run.end());
}

#[test]
fn a_killed_store_ends_the_command() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let (run, pids) = beating(&store);
    server.kill().unwrap();
    is_lost(&run.end());
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    let unreachable = store.end(&["run", "k", "--", "true"]);
    assert_eq!(unreachable.code, 69, "{unreachable:?}");
    server.restart().unwrap();
    is_alone(&store, next(&store), &pids);
}

#[test]
fn a_command_has_time_to_end_by_itself() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let script = "trap 'echo tidied >>$LOG; exit 0' TERM; echo ready >>$LOG; \
        while :; do sleep 0.01; done";
    let words = ["run", "k", "--ttl", "6s", "--kill-after", "1h", "--", "sh", "-c", script];
    let run = store.start(&words);
    store.log_has("ready");
    server.kill().unwrap();
    is_lost(&run.end());
    assert!(store.log().contains("tidied"));
}

#[test]
fn a_killed_tenure_leaves_no_process_and_the_lease_runs_out() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let (run, pids) = beating(&store);
    let next = next(&store);
    store.line_has("k", 2);
    run.signal(Signal::KILL);
    run.end();
    let ends = lease_end(&store);
    let began = is_alone(&store, next, &pids);
    assert!(began >= ends, "{began:?} is before the end of the lease at {ends:?}");
}

#[test]
fn a_paused_tenure_has_its_command_ended_by_the_keeper() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let (run, pids) = beating(&store);
    let next = next(&store);
    store.line_has("k", 2);
    run.signal(Signal::STOP);
    let ends = lease_end(&store);
    let began = is_alone(&store, next, &pids);
    assert!(began >= ends, "{began:?} is before the end of the lease at {ends:?}");
    run.signal(Signal::CONT);
    let end = run.end();
    assert_eq!(end.code, 79, "{end:?}");
    assert!(end.err.starts_with("tenure: `k`: the lock is lost: "), "{end:?}");
    assert!(end.err.ends_with("; its keeper has killed the command\n"), "{end:?}");
    assert_eq!(end.err.lines().count(), 1, "{end:?}");
}

#[test]
fn a_break_ends_the_command_before_the_next_begins() {
    for (script, count) in [(STUBBORN, 2), (DESERTER, 2), (RUNAWAY, 5)] {
        let Some((_server, store)) = redis(Setup::new()) else { return };
        begins_after_all_are_gone(&store, script, count);
    }
}

#[test]
fn a_break_ends_a_command_although_nobody_reads_its_errors() {
    let store = Store::new();
    let fills = "head -c 65536 /dev/zero >&2; echo pid $$ >>$LOG; exec sleep 600.125";
    let first = store.start(&["run", "k", "--", "sh", "-c", fills]);
    store.log_has("pid");
    let end = store.end(&["break", "k", "--wait", "60s"]);
    assert_eq!(end.code, 0, "{end:?}");
    assert_eq!(first.end().code, 79);
}

#[test]
fn a_break_says_when_the_ticket_is_out_at_the_latest() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let run = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let said = store.output(&["break", "k"]);
    assert!(said.contains("was asked to leave") && said.contains(", at the latest in "), "{said}");
    let end = run.end();
    assert_eq!(end.code, 79, "{end:?}");
    // A waiter is out at once.
    let _holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let waiter = store.start(&["run", "k", "--", "true"]);
    store.line_has("k", 2);
    let id = field(&store.line("k")[1], "id").to_owned();
    assert!(store.output(&["break", "k", "--ticket", &id]).contains("was waiting, and is out"));
    let end = waiter.end();
    assert_eq!(end.code, 75, "{end:?}");
    assert!(end.err.contains("this ticket was removed from the line"), "{}", end.err);
}

fn candidates(store: &Store) -> [Running; 2] {
    [1, 2].map(|count| {
        let one = store.start(&["lead", "k", "--ttl", "2s", "--", "sh", "-c", WORK]);
        store.line_has("k", count);
        one
    })
}

#[test]
fn leaders_campaign_again_when_their_store_is_back() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let candidates = candidates(&store);
    for term in 1..=2 {
        // On a busy machine a leader may lose its lease, which adds a term.
        eventually(&format!("term {term}"), || pids(&store.log()).len() >= term);
        let work = *pids(&store.log()).last().unwrap();
        server.kill().unwrap();
        eventually("the end of the leader's command", || !is_alive(work));
        server.restart().unwrap();
    }
    eventually("another term", || pids(&store.log()).len() >= 3);
    store.line_has("k", 2);
    for candidate in &candidates {
        candidate.signal(Signal::TERM);
    }
    let ends = candidates.map(Running::end);
    assert!(ends.iter().all(|end| end.code == 1015), "{ends:?}");
    assert!(ends.iter().any(|end| end.err.contains("campaigning for `k` again")), "{ends:?}");
    assert!(!store.log().contains("overlap"), "{}", store.log());
    assert_eq!(store.line("k").len(), 0);
}

#[test]
fn a_leader_outlives_a_store_that_comes_back_in_time() {
    let Some((server, store)) = redis(Setup::new().appendonly()) else { return };
    let words =
        ["lead", "k", "--ttl", "1h", "--", "sh", "-c", "echo pid $$ >>$LOG; exec sleep 600"];
    let leader = store.start(&words);
    eventually("a leader", || pids(&store.log()).len() == 1);
    let token = field(&store.line("k")[0], "token").to_owned();
    server.kill().unwrap();
    server.restart().unwrap();
    assert_eq!(field(&store.line("k")[0], "token"), token);
    assert!(is_alive(pids(&store.log())[0]));
    leader.signal(Signal::TERM);
    let end = leader.end();
    assert_eq!((end.code, end.err.as_str()), (1015, ""));
    assert_eq!(store.line("k").len(), 0);
}

#[test]
fn a_broken_candidate_stands_for_election_again() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let [leader, candidate] = candidates(&store);
    let front = |at: usize| field(&store.line("k")[at], "id").to_owned();
    let id = front(1);
    store.output(&["break", "k", "--ticket", &id]);
    eventually("a new ticket", || store.line("k").len() == 2 && front(1) != id);
    leader.signal(Signal::TERM);
    eventually("the next term", || pids(&store.log()).len() == 2);
    candidate.signal(Signal::TERM);
    assert_eq!(leader.end().code, 1015);
    let end = candidate.end();
    assert_eq!(end.code, 1015);
    assert!(end.err.contains("from the line of `k` by a break"), "{}", end.err);
    assert!(end.err.contains("; campaigning for `k` goes on"), "{}", end.err);
    assert!(!store.log().contains("overlap"), "{}", store.log());
}

#[test]
fn a_frozen_store_does_not_hold_up_an_interrupted_waiter() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    for verb in ["run", "lead"] {
        let waiter = store.start(&[verb, "k", "--", "true"]);
        store.line_has("k", 2);
        server.freeze().unwrap();
        let asked = Instant::now();
        waiter.signal(Signal::INT);
        let end = waiter.end();
        assert_eq!((end.code, end.err.as_str()), (1002, ""));
        // Without a time limit it would wait for the lease, which is 30 s.
        assert!(asked.elapsed() < Duration::from_secs(15));
        server.thaw().unwrap();
        store.line_has("k", 1);
    }
    server.freeze().unwrap();
    holder.signal(Signal::TERM);
    let end = holder.end();
    assert_eq!(end.code, 1015, "{end:?}");
    assert!(
        end.err.contains("the lock is free once its lease in the store has ended"),
        "{}",
        end.err
    );
}
