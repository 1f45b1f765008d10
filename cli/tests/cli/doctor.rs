//! `tenure doctor`: guarantees with reasons, warnings, checks, and the exit code.

use rustix::process::{Pid, Signal, kill_process};
use tenure::blocking::block_on;
use tenure_servers::Store as _;
use tenure_servers::etcd::{Cluster, ETCD, ETCDCTL};
use tenure_servers::have;
use tenure_servers::redis::{FAKETIME, Setup};

use crate::bad_input::is_refused;
use crate::kit::{End, Store, field, fields, redis};
use crate::pty::Pty;

const PROMISES: [&str; 11] = [
    "fair",
    "push",
    "every-event",
    "tokens",
    "durable-tokens",
    "holder-crash",
    "holder-pause",
    "store-crash",
    "failover",
    "clock-step",
    "full-memory",
];

/// The findings of a doctor that has exited with the code that they demand.
fn findings(store: &Store, words: &[&str]) -> Vec<String> {
    let End { code, out, err } = store.end(&[&["doctor", "--json"], words].concat());
    assert_eq!(err, "");
    let findings: Vec<_> = out.lines().map(String::from).collect();
    let has = |verdict: &str| findings.iter().any(|one| field(one, "verdict") == verdict);
    let expected = if has("missing") { 2 } else { i32::from(has("warning")) };
    assert_eq!(code, expected, "{out}");
    findings
}

/// The only finding of this name.
fn of<'a>(findings: &'a [String], name: &str) -> &'a str {
    let mut all = findings.iter().filter(|one| field(one, "name") == name);
    let found = all.next().unwrap_or_else(|| panic!("{name} in {findings:#?}"));
    assert!(all.next().is_none(), "two of {name}: {findings:#?}");
    found
}

fn verdict<'a>(findings: &'a [String], name: &str) -> &'a str {
    field(of(findings, name), "verdict")
}

/// A store that has had a lock.
fn used() -> Store {
    let store = Store::new();
    store.output(&["run", "k", "--", "true"]);
    store
}

#[test]
fn every_guarantee_is_shown_with_its_reason_and_no_key_stays() {
    let store = Store::new();
    let _holder = store.start(&["run", "a key", "--", "sleep", "600"]);
    store.line_has("a key", 1);
    let found = findings(&store, &[]);
    let names: Vec<_> = found.iter().map(|one| field(one, "name")).collect();
    assert_eq!(names[..PROMISES.len()], PROMISES);
    assert_eq!(names[PROMISES.len()..], ["round-trip", "hand-over", "lines"]);
    for one in &found {
        assert_eq!(fields(one)[..5], ["check", "name", "verdict", "text", "cure"]);
        assert!(field(one, "text").len() > 10, "{one}");
    }
    assert_eq!((verdict(&found, "fair"), verdict(&found, "failover")), ("yes", "no"));
    for name in ["round-trip", "hand-over"] {
        let times =
            ["median_us", "worst_us"].map(|time| field(of(&found, name), time).parse::<u64>());
        assert!(matches!(&times, [Ok(median), Ok(worst)] if median <= worst), "{times:?}");
    }
    assert_eq!(field(of(&found, "lines"), "text"), "1 of 1 lines can be read");
    assert_eq!(
        store.output(&["keys", "--json"]),
        "{\"key\":\"a key\",\"holding\":1,\"waiting\":0}\n"
    );
}

#[test]
fn a_required_guarantee_that_is_missing_exits_with_2() {
    let store = used();
    let found = findings(&store, &["--require", "fair,holder-pause", "--require", "push"]);
    let all = ["fair", "holder-pause", "push", "failover"].map(|name| verdict(&found, name));
    assert_eq!(all, ["yes", "missing", "yes", "no"]);
    assert_eq!(store.end(&["doctor", "--require", "failover"]).code, 2);
    let end = store.end(&["doctor", "--require", "luck"]);
    assert_eq!((end.code, end.out.as_str()), (64, ""));
    assert!(end.err.contains("possible values: fair, push,"), "{end:?}");
}

#[test]
fn people_get_lines_that_fit_their_terminal() {
    let store = used();
    for columns in [40, 80, 200] {
        let (_, shown) = Pty::start(&store.tenure(&["doctor"]), columns).end();
        let plain = ["\u{1b}[32m", "\u{1b}[33m", "\u{1b}[0m"]
            .iter()
            .fold(shown.clone(), |text, escape| text.replace(escape, ""));
        // The first line is the store's name.
        let widest = plain.lines().skip(1).map(|line| line.chars().count()).max();
        assert!(widest <= Some(columns.into()), "{columns}: {plain}");
        assert!(plain.contains("yes     fair") && plain.contains("no      failover"), "{plain}");
        assert!(shown.contains("\u{1b}[32myes"), "{shown:?}");
    }
}

#[test]
fn a_store_that_cannot_be_opened_is_reported_as_by_the_other_commands() {
    let store = Store::unmade();
    is_refused(&store.end(&["doctor"]), 69, "the first lock there creates it");
    assert!(!store.path("store").exists(), "no store is made");
    for (url, code, with) in [
        ("redis://127.0.0.1:1", 69, "no server listens"),
        ("memory:", 77, "visible to one process only"),
        ("gopher://x", 64, "no engine answers to the scheme"),
    ] {
        is_refused(&store.end(&["--on", url, "doctor"]), code, with);
    }
}

#[test]
fn a_holder_that_does_not_leave_is_a_warning() {
    let store = Store::new();
    let work = "trap '' TERM; echo pid $$ >>$LOG; while :; do sleep 0.02; done";
    let holder = store.start(&["run", "the k", "--on-lost", "warn", "--", "sh", "-c", work]);
    store.log_has("pid");
    store.output(&["break", "the k"]);
    let id = field(&store.line("the k")[0], "id")[..8].to_owned();
    let found = findings(&store, &[]);
    let ticket = of(&found, &id);
    assert_eq!([field(ticket, "check"), field(ticket, "verdict")], ["ticket", "warning"]);
    assert!(field(ticket, "text").contains("was asked to leave `the k`, and holds it"), "{ticket}");
    assert_eq!(field(ticket, "cure"), format!("tenure break --ticket {id} --wait -- 'the k'"));
    assert!(findings(&store, &["other/"]).iter().all(|one| field(one, "check") != "ticket"));
    let pid = crate::run::pids(&store.log())[0];
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(holder.end().code, 79);
}

#[test]
fn a_redis_that_may_lose_locks_is_explained_and_cured() {
    let setup = Setup::new().setting(&["maxmemory-policy", "allkeys-lru"]);
    let Some((server, store)) = redis(setup) else { return };
    let found = findings(&store, &["--require", "full-memory,store-crash"]);
    for name in ["full-memory", "store-crash"] {
        assert_eq!(verdict(&found, name), "missing");
    }
    assert!(field(of(&found, "settings"), "text").contains("evicts locks"), "{found:#?}");
    let ahead: i64 = field(of(&found, "clock"), "ahead_us").parse().unwrap();
    let within: i64 = field(of(&found, "clock"), "within_us").parse().unwrap();
    assert!(ahead.abs() <= within + 1_000, "it is the clock of this machine: {found:#?}");

    // The cures of the report.
    for setting in
        [["appendonly", "yes"], ["appendfsync", "always"], ["maxmemory-policy", "noeviction"]]
    {
        server.command(&[&["CONFIG", "SET"], &setting[..]].concat()).unwrap();
    }
    let found = findings(&store, &["--require", "full-memory,store-crash"]);
    for name in ["full-memory", "store-crash"] {
        assert_eq!(verdict(&found, name), "yes");
    }
    assert!(found.iter().all(|one| field(one, "check") != "warning"), "{found:#?}");
    assert_eq!(store.output(&["keys"]), "");
}

#[test]
fn a_clock_that_differs_is_a_warning() {
    if !have(&[FAKETIME]) {
        return;
    }
    let Some((server, store)) = redis(Setup::new().settable_clock()) else { return };
    for (seconds, word) in [(-90, "behind"), (50, "ahead of")] {
        server.set_clock(seconds).unwrap();
        let found = findings(&store, &[]);
        assert_eq!(verdict(&found, "clock"), "warning", "{found:#?}");
        assert!(field(of(&found, "clock"), "text").contains(word), "{found:#?}");
    }
}

#[test]
fn a_user_who_may_not_lock_is_a_warning() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    // It may run scripts, and they may not write.
    server.command(&["ACL", "SETUSER", "default", "-hset", "-set", "-zadd"]).unwrap();
    let found = findings(&store, &[]);
    assert_eq!(verdict(&found, "hand-over"), "warning", "{found:#?}");
    assert!(field(of(&found, "hand-over"), "text").contains("no lock was given"), "{found:#?}");
    server.command(&["ACL", "SETUSER", "default", "+@all"]).unwrap();
    drop(holder);
}

#[test]
fn a_store_that_takes_no_locks_is_a_warning() {
    let setup = Setup::new().setting(&["min-replicas-to-write", "1"]);
    let Some((_server, store)) = redis(setup) else { return };
    let found = findings(&store, &[]);
    assert_eq!(verdict(&found, "hand-over"), "warning", "{found:#?}");
    assert!(field(of(&found, "hand-over"), "text").contains("fewer replicas"), "{found:#?}");
}

#[test]
fn a_line_that_cannot_be_read_is_a_warning_and_hides_no_other() {
    if !have(&[ETCD, ETCDCTL]) {
        return;
    }
    let cluster = Cluster::of(1).unwrap();
    let store = Store::at(cluster.url());
    let spoilt = store.start(&["run", "--ttl", "5m", "a", "--", "sleep", "600"]);
    store.line_has("a", 1);
    let ticket = cluster.ctl(&["get", "--prefix", "--keys-only", "tenure/v1/t/"]).unwrap();
    let waiter = store.start(&["run", "--ttl", "5m", "a", "--", "true"]);
    store.line_has("a", 2);
    // A client that notices the change ends.
    spoilt.signal(Signal::STOP);
    waiter.signal(Signal::STOP);
    let _other = store.start(&["run", "b", "--", "sleep", "600"]);
    store.line_has("b", 1);
    // Another version of Tenure may write another format.
    cluster.ctl(&["put", "--ignore-lease", ticket.trim(), "garbage"]).unwrap();
    let found = findings(&store, &[]);
    assert_eq!(field(of(&found, "a"), "check"), "line");
    assert_eq!(verdict(&found, "a"), "warning");
    assert_eq!(field(of(&found, "lines"), "text"), "1 of 2 lines can be read");
    let table = store.end(&["top"]);
    assert_eq!(table.code, 0, "{table:?}");
    assert!(table.out.contains("a    cannot be read: "), "{table:?}");
}

#[test]
fn lines_beyond_the_maximum_are_counted_and_not_read() {
    let store = Store::new();
    let locks = block_on(tenure::connect(&store.url())).unwrap();
    let lock = |count: usize| block_on(locks.mutex(format!("k{count}")).lock()).unwrap();
    let _guards: Vec<_> = (0..5_002).map(lock).collect();
    let found = findings(&store, &[]);
    let text = "5000 of 5000 lines can be read; 2 more were not looked at: name a longer prefix";
    assert_eq!(field(of(&found, "lines"), "text"), text);
    let end = store.end(&["top"]);
    assert_eq!((end.code, end.out.lines().count()), (0, 5_001));
    assert_eq!(end.err, "tenure: 2 more keys are not read: name a longer prefix\n");
}
