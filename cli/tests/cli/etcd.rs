//! The command on etcd: hand-over, holders, granted ttl, and the reasons of a loss.

use std::io::{BufRead as _, BufReader};
use std::time::Duration;

use rustix::process::Signal;
use tenure_servers::Store as _;
use tenure_servers::etcd::{Cluster, ETCD, ETCDCTL};
use tenure_servers::have;

use crate::kit::{Store, eventually, field};
use crate::run::{hands_over, names_the_holder};

/// Starts a cluster of one member. `None`, with a message, where there is no etcd.
fn etcd() -> Option<(Cluster, Store)> {
    if !have(&[ETCD]) {
        return None;
    }
    let cluster = Cluster::of(1).unwrap();
    let store = Store::at(cluster.url());
    Some((cluster, store))
}

#[test]
fn the_next_is_served_with_a_higher_token() {
    let Some((_cluster, store)) = etcd() else { return };
    hands_over(&store);
}

#[test]
fn a_busy_answer_names_the_holder() {
    let Some((_cluster, store)) = etcd() else { return };
    names_the_holder(&store);
}

#[test]
fn a_ttl_that_etcd_raises_is_reported() {
    let Some((_cluster, store)) = etcd() else { return };
    let warning = |ttl: &[&str]| {
        let end = store.end(&[&["run"], ttl, &["k", "--", "true"]].concat());
        assert_eq!(end.code, 0, "{end:?}");
        end.err
    };
    let raised = warning(&["--ttl", "500ms"]);
    let expected = "`k` stays locked for about 2s, and not for 500ms";
    assert!(raised.contains(expected), "{raised}");
    for exact in [&["--ttl", "3s"][..], &[]] {
        assert!(!warning(exact).contains("stays locked"), "{exact:?}");
    }
    assert!(!warning(&["--ttl", "500ms", "--quiet"]).contains("stays locked"));
}

#[test]
fn a_holder_whose_rights_are_taken_away_says_so_when_it_stops_its_command() {
    if !have(&[ETCD, ETCDCTL]) {
        return;
    }
    let cluster = Cluster::with_users(1, "tenure", "locks", "hunter2").unwrap();
    let store = Store::at(cluster.url());
    let words = ["--quiet", "run", "k", "--ttl", "4s", "--", "sleep", "600"];
    let holder = store.start(&words);
    store.line_has("k", 1);
    cluster.ctl(&["role", "revoke-permission", "locks", "--prefix=true", "tenure/"]).unwrap();
    let end = holder.end();
    assert_eq!(end.code, 79, "{end:?}");
    assert!(end.err.starts_with("tenure: `k`: the lock is "), "{end:?}");
    assert!(end.err.contains("(the last renewal failed: etcd at 127.0.0.1:"), "{end:?}");
    assert!(end.err.contains("does not let this user read and write the keys"), "{end:?}");
    assert!(end.err.ends_with("; the command is stopped\n"), "{end:?}");
    assert!(!end.err.contains("hunter2"), "{end:?}");
}

#[test]
fn a_ticket_in_a_full_store_can_be_removed_by_force() {
    const QUOTA_BYTES: u32 = 2 << 20;
    if !have(&[ETCD, ETCDCTL]) {
        return;
    }
    let cluster = Cluster::with_quota(QUOTA_BYTES).unwrap();
    let store = Store::at(cluster.url());
    let holder = store.start(&["--quiet", "run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let text = "x".repeat(100 << 10);
    while cluster.ctl(&["put", "stranger", &text]).is_ok() {}
    let end = store.end(&["break", "k"]);
    assert_eq!(end.code, 77, "{end:?}");
    assert!(end.err.contains(" cannot be asked to leave: etcd at "), "{end:?}");
    assert!(end.err.contains("; --force may remove its ticket without asking"), "{end:?}");
    let end = store.end(&["break", "k", "--force-after", "200ms"]);
    assert_eq!(end.code, 0, "{end:?}");
    assert!(end.err.contains(" cannot be asked to leave: etcd at "), "{end:?}");
    assert!(end.err.contains("has no space left"), "{end:?}");
    assert!(!end.out.is_empty(), "the removed ticket is named");
    assert_eq!(holder.end().code, 79);
}

#[test]
fn a_watch_reports_an_outage_and_its_end() {
    let Some((cluster, _)) = etcd() else { return };
    let store = Store::at(format!("{}?timeout=250ms", cluster.url()));
    let mut watch = store.tenure(&["watch"]).spawn().unwrap();
    let (send, said) = std::sync::mpsc::channel();
    let mut lines = BufReader::new(watch.stderr.take().unwrap()).lines();
    std::thread::spawn(move || {
        lines.by_ref().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    let says = |text: &str| {
        eventually(text, || said.recv_timeout(Duration::from_secs(60)).unwrap().contains(text));
    };
    let mut seen = BufReader::new(watch.stdout.take().unwrap()).lines();
    let first = std::thread::spawn(move || seen.next().map(|line| (line.unwrap(), seen)));
    // The watch begins at an unknown time.
    while !first.is_finished() {
        store.output(&["--quiet", "run", "k", "--", "true"]);
    }
    // The watch goes on while its reader lives.
    let _reader = first.join().unwrap().unwrap();
    cluster.members()[0].freeze().unwrap();
    says("retrying until the store answers: ");
    cluster.members()[0].thaw().unwrap();
    store.output(&["--quiet", "run", "k", "--", "true"]);
    says("the store answers again");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn a_ticket_behind_one_that_cannot_be_read_is_broken_by_its_whole_id() {
    let Some((cluster, store)) = etcd() else { return };
    if !have(&[ETCDCTL]) {
        return;
    }
    let _holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    // No key names an id: the only ticket in the line is the holder's.
    let of_holder = cluster.ctl(&["get", "--prefix", "--keys-only", "tenure/v1/t/"]).unwrap();
    // It renews every 20 seconds. A busy machine needs some of them for the commands below.
    let waiter = store.start(&["run", "--ttl", "1m", "k", "--", "true"]);
    store.line_has("k", 2);
    let waiting = field(&store.line("k")[1], "id").to_owned();
    // A waiter that notices the change ends at once, so it is stopped until the break.
    waiter.signal(Signal::STOP);
    // Another version of Tenure may write another format.
    cluster.ctl(&["put", "--ignore-lease", of_holder.trim(), "garbage"]).unwrap();
    for words in [&["break", "k"][..], &["break", "k", "--ticket", &waiting[..8]]] {
        let end = store.end(words);
        assert_eq!(end.code, 77, "{end:?}");
        assert!(end.err.contains("name the ticket with --ticket and its whole id"), "{}", end.err);
    }
    // The store does not know whether the ticket holds, and so it asks the owner to leave.
    let said = store.output(&["break", "k", "--ticket", &waiting]);
    assert_eq!(said, format!("ticket {waiting} was asked to leave\n"));
    waiter.signal(Signal::CONT);
    // The waiter cannot read the line, and ends.
    let end = waiter.end();
    assert_eq!(end.code, 77, "{end:?}");
    assert!(end.err.contains("a ticket in the line cannot be read"), "{end:?}");
}
