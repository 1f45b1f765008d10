//! A store that loses its lines, and watches that show how tickets end.

use std::io::{BufRead as _, BufReader};
use std::thread;

use rustix::process::Signal;
use tenure_servers::redis::Setup;

use crate::kit::{field, redis};

#[test]
fn a_waiter_whose_line_is_lost_by_the_store_joins_it_again() {
    for wait in [&["--wait", "1h"][..], &[]] {
        let Some((server, store)) = redis(Setup::new()) else { return };
        let _holder = store.start(&["run", "k", "--ttl", "1h", "--", "sleep", "600"]);
        store.line_has("k", 1);
        let words = [&["run", "k", "--ttl", "2s"], wait, &["--", "echo", "ran"]].concat();
        let waiter = store.start(&words);
        store.line_has("k", 2);
        server.command(&["FLUSHALL"]).unwrap();
        let end = waiter.end();
        assert_eq!((end.code, end.out.as_str()), (0, "ran\n"), "{end:?}");
        let said = "has lost the line of `k`: joining it again";
        assert!(end.err.contains(said), "{}", end.err);
    }
}

#[test]
fn a_waiter_outlasts_a_server_that_comes_back_empty() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let _holder = store.start(&["run", "k", "--ttl", "1h", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let waiter = store.start(&["run", "k", "--ttl", "2s", "--wait", "1h", "--", "echo", "ran"]);
    store.line_has("k", 2);
    server.kill().unwrap();
    server.restart().unwrap();
    let end = waiter.end();
    assert_eq!((end.code, end.out.as_str()), (0, "ran\n"), "{end:?}");
}

#[test]
fn a_break_and_the_end_of_a_lease_are_watched_by_their_names() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let mut watch = store.tenure(&["watch", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    // The watch begins at an unknown time: others lock and release until it shows an event.
    let first = thread::spawn(move || lines.next().map(|line| (line.unwrap(), lines)));
    while !first.is_finished() {
        store.output(&["run", "before", "--", "sleep", "0.3"]);
    }
    let (_, mut lines) = first.join().unwrap().unwrap();
    let mut seen = |event: &str, id: &str| loop {
        let line = lines.next().unwrap().unwrap();
        if field(&line, "id") == id && field(&line, "event") == event {
            return;
        }
    };
    for how in [&["break", "k"][..], &["break", "k", "--force-after", "0s"]] {
        let run = store.start(&["run", "k", "--", "sleep", "600"]);
        store.line_has("k", 1);
        let id = field(&store.line("k")[0], "id").to_owned();
        seen("served", &id);
        store.output(how);
        seen("broken", &id);
        assert_eq!(run.end().code, 79);
        store.line_has("k", 0);
    }
    // A holder that is frozen with its keeper cannot renew.
    let run = store.start(&["run", "k", "--ttl", "2s", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let id = field(&store.line("k")[0], "id").to_owned();
    seen("served", &id);
    run.signal(Signal::STOP);
    seen("expired", &id);
    run.signal(Signal::CONT);
    watch.kill().unwrap();
    watch.wait().unwrap();
}
