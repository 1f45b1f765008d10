//! The command on Redis, alone and in parallel: its output, messages and refusals.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tenure_servers::have;
use tenure_servers::redis::{Cluster, Masters, REDIS, Sentinels, Setup};

use crate::kit::{End, Running, Store, end, field, fields, redis};
use crate::pty::Pty;
use crate::run::{hands_over, leaves_when_interrupted, names_the_holder};

/// A password that occurs nowhere else.
const PASSWORD: &str = "hush-4711-of-tests";

/// The row of `keys` for a key with one holder.
const KEY_HELD: &str = "k          1        0";

/// Runs the same command `times` times in parallel.
fn at_once(store: &Store, count: usize, words: &[&str]) -> Vec<End> {
    let all: Vec<Running> = (0..count).map(|_| store.start(words)).collect();
    all.into_iter().map(Running::end).collect()
}

fn is_refused(end: &End, code: i32, with: &str) {
    assert_eq!((end.code, end.out.as_str()), (code, ""), "{end:?}");
    assert!(end.err.starts_with("tenure: ") && end.err.contains(with), "{end:?}");
    assert_eq!(end.err.trim_end().lines().count(), 1, "{end:?}");
}

#[test]
fn the_next_is_served_with_a_higher_token() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    hands_over(&store);
}

#[test]
fn a_busy_answer_names_the_holder() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    names_the_holder(&store);
}

#[test]
fn a_waiter_that_is_interrupted_leaves_the_line() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    leaves_when_interrupted(&store);
}

#[test]
fn a_line_shows_when_its_leases_end() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let holder =
        ["run", "k", "--permits", "2/3", "--ttl", "7s", "--note", "mine", "--", "sleep", "600"];
    let _holder = store.start(&holder);
    store.line_has("k", 1);
    let _waiter = store.start(&["run", "k", "--permits", "3/3", "--", "sleep", "600"]);
    store.line_has("k", 2);
    let line = store.line("k");
    let names = [
        "key",
        "id",
        "token",
        "state",
        "kind",
        "permits",
        "of",
        "position",
        "owner",
        "note",
        "expires_in_ms",
        "since_ms",
    ];
    assert_eq!(fields(&line[0]), names);
    assert_eq!((field(&line[0], "state"), field(&line[0], "note")), ("holding", "mine"));
    assert_eq!((field(&line[1], "state"), field(&line[1], "position")), ("waiting", "2"));
    assert!(line[0].contains("\"permits\":{\"take\":2,\"of\":3},"), "{}", line[0]);
    let expires = |at: usize| field(&line[at], "expires_in_ms").parse::<u64>().unwrap();
    assert!((1..=7_000).contains(&expires(0)), "{}", line[0]);
    assert!((7_001..=30_000).contains(&expires(1)), "{}", line[1]);
    let token = |at: usize| field(&line[at], "token").parse::<u64>().unwrap();
    assert!(token(0) < token(1));
    assert_eq!(store.output(&["keys", "--json"]), "{\"key\":\"k\",\"holding\":1,\"waiting\":1}\n");
}

#[test]
fn a_ttl_that_is_too_short_is_refused_with_the_way_out() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    for verb in ["run", "lead"] {
        let end = store.end(&[verb, "k", "--ttl", "200ms", "--", "true"]);
        is_refused(&end, 64, "a ttl of 200ms is too short: 326ms is the least");
    }
    assert_eq!(store.end(&["run", "k", "--ttl", "3s", "--", "true"]).code, 0);
    assert_eq!(store.line("k").len(), 0);
}

#[test]
fn numbers_are_given_once_to_many_at_a_time() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let ends = at_once(&store, 8, &["next", "k", "--count", "5"]);
    assert!(ends.iter().all(|end| end.code == 0 && end.err.is_empty()), "{ends:?}");
    let lines = ends.iter().flat_map(|end| end.out.lines());
    let mut numbers: Vec<u64> = lines.map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
}

#[test]
fn a_limit_is_kept_by_many_at_a_time() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let count = ["count", "k", "--per", "1h", "--limit", "5", "--json"];
    let ends = at_once(&store, 8, &count);
    let allowed = ends.iter().filter(|end| end.code == 0).count();
    let refused = ends.iter().filter(|end| end.code == 75).count();
    assert_eq!((allowed, refused), (5, 3), "{ends:?}");
    for end in &ends {
        assert_eq!(fields(&end.out), ["key", "value", "resets_in_ms", "allowed"]);
        assert_eq!(field(&end.out, "allowed"), if end.code == 0 { "true" } else { "false" });
    }
}

#[test]
fn lasting_events_are_watched() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let mut watch = store.tenure(&["watch", "a/", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let hold = |key: &str| {
        let run = store.tenure(&["run", key, "--", "cat"]).stdin(Stdio::piped()).spawn().unwrap();
        store.line_has(key, 1);
        move || {
            let mut run = run;
            drop(run.stdin.take());
            assert!(run.wait().unwrap().success());
        }
    };
    // The watch begins at an unknown time: others lock and release until it shows an event.
    let first = thread::spawn(move || lines.next().map(|line| (line.unwrap(), lines)));
    while !first.is_finished() {
        let leave = hold("a/before");
        thread::sleep(Duration::from_millis(300));
        leave();
    }
    let (line, mut lines) = first.join().unwrap().unwrap();
    assert_eq!(fields(&line), ["at", "key", "event", "id", "token", "owner"]);
    let mut event = || loop {
        let line = lines.next().unwrap().unwrap();
        if field(&line, "key") != "a/before" {
            break (field(&line, "key").to_owned(), field(&line, "event").to_owned());
        }
    };
    let is = |key: &str, event: &str| (key.to_owned(), event.to_owned());
    let (outside, leave) = (hold("b/outside"), hold("a/k"));
    assert_eq!(event(), is("a/k", "joined"));
    assert_eq!(event(), is("a/k", "served"));
    outside();
    leave();
    assert_eq!(event(), is("a/k", "left"));
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn a_bench_measures_and_cleans_up() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let lines = store.output(&["bench", "--seconds", "1", "--tasks", "3", "--json"]);
    let cases: Vec<_> = lines.lines().map(|line| field(line, "case")).collect();
    assert_eq!(cases, ["free", "parallel", "handover", "crowd"]);
    for line in lines.lines() {
        assert!(field(line, "ops").parse::<u64>().unwrap() > 0, "{line}");
    }
    assert_eq!(store.output(&["keys"]), "");
}

#[test]
fn a_server_that_is_gone_is_named() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    server.kill().unwrap();
    let at = format!("127.0.0.1:{}", server.port());
    for words in [
        &["run", "k", "--", "true"][..],
        &["lead", "k", "--", "true"],
        &["line", "k"],
        &["keys"],
        &["break", "k"],
        &["watch"],
        &["next", "k"],
        &["count", "k", "--per", "1s"],
        &["bench"],
    ] {
        is_refused(&store.end(words), 69, &at);
    }
}

#[test]
fn a_server_that_is_gone_is_retried_during_the_wait() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    server.kill().unwrap();
    // A listener in its place hangs up, which shows that the server was requested.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, server.port())).unwrap();
    let run = store.start(&["run", "k", "--wait", "1h", "--", "echo", "ran"]);
    drop(listener.accept().unwrap());
    drop(listener);
    server.restart().unwrap();
    let end = run.end();
    assert_eq!((end.code, end.out.as_str()), (0, "ran\n"), "{end:?}");
}

#[test]
fn a_server_that_is_gone_beyond_the_wait_is_named() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let began = Instant::now();
    server.kill().unwrap();
    let at = format!("127.0.0.1:{}", server.port());
    is_refused(&store.end(&["run", "k", "--wait", "1s", "--", "true"]), 69, &at);
    assert!(began.elapsed() >= Duration::from_secs(1));
}

#[test]
fn a_terminal_shows_at_once_that_a_server_is_gone() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    server.kill().unwrap();
    let mut pty = Pty::start(&store.tenure(&["run", "k", "--wait", "1h", "--", "true"]), 80);
    pty.shows("retrying for ");
    pty.shows(&format!("127.0.0.1:{}", server.port()));
    pty.write("\u{3}");
    assert_eq!(pty.end().0, 1002);
}

#[test]
fn a_server_that_goes_during_a_wait_in_line_is_named() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let waiter_behind = |key: &str| {
        let holder = store.start(&["run", key, "--ttl", "1h", "--", "sleep", "600"]);
        store.line_has(key, 1);
        let waiter = store.start(&["run", key, "--wait", "5s", "--", "true"]);
        store.line_has(key, 2);
        (holder, waiter)
    };
    let (_holder, waiter) = waiter_behind("a");
    server.freeze().unwrap();
    is_refused(&waiter.end(), 69, &format!("127.0.0.1:{} does not answer", server.port()));
    server.thaw().unwrap();
    let (_holder, waiter) = waiter_behind("b");
    server.kill().unwrap();
    is_refused(&waiter.end(), 69, &format!("127.0.0.1:{}", server.port()));
}

#[test]
fn errors_that_waiting_does_not_mend_are_reported_at_once() {
    let Some((_server, store)) = redis(Setup::new().password(PASSWORD)) else { return };
    let began = Instant::now();
    let run = |url: String, words: &[&str]| {
        Store::at(url).end(&[&["run", "--wait", "1h"], words, &["--", "true"]].concat())
    };
    is_refused(&run(store.url().replace(PASSWORD, "wrong"), &["k"]), 77, "user and password");
    is_refused(
        &run(store.url() + "?tiemout=1s", &["k"]),
        64,
        "`tiemout` is no option of `redis:` (did you mean `timeout`?)",
    );
    is_refused(&run(store.url(), &["k", "--ttl", "1ms"]), 64, "too short");
    assert!(began.elapsed() < Duration::from_secs(600));
}

#[test]
fn a_password_is_passed_on_and_never_shown() {
    let setup = Setup::new().user("tenure", PASSWORD).tls();
    let Some((_server, store)) = redis(setup) else { return };
    let script = "\"$0\" line --json k; \"$0\" keys; grep -las \"$1\" /proc/[0-9]*/cmdline; true";
    let tenure = env!("CARGO_BIN_EXE_tenure");
    // A pattern, so that the search does not find itself.
    let pattern = PASSWORD.replacen('-', "[-]", 1);
    let said = store.output(&["run", "k", "--", "sh", "-c", script, tenure, &pattern]);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 3, "the password is in an argument: {said}");
    assert_eq!((field(lines[0], "state"), lines[2]), ("holding", KEY_HELD));

    let wrong = Store::at(store.url().replace(PASSWORD, "wrong-4712-of-tests"));
    for words in [&["run", "k", "--", "true"][..], &["lead", "k", "--", "true"], &["keys"]] {
        let end = wrong.end(words);
        is_refused(&end, 77, "does not know this user and password");
        assert!(!end.err.contains("of-tests"), "{end:?}");
    }
    let none = Store::at(store.url().replace(&format!("tenure:{PASSWORD}@"), ""));
    is_refused(&none.end(&["keys"]), 77, "password");
}

#[test]
fn a_relative_certificate_stays_the_same_for_the_command() {
    let Some((server, store)) = redis(Setup::new().tls()) else { return };
    fs::copy(server.certificates().unwrap().ca(), store.path("ca.pem")).unwrap();
    let url = format!("rediss://127.0.0.1:{}?ca=ca.pem", server.tls_port().unwrap());
    let script = "cd / && \"$0\" keys";
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let mut run = store.tenure(&["--on", &url, "run", "k", "--", "sh", "-c", script, tenure]);
    let end = end(run.current_dir(store.path("")));
    assert_eq!(
        (end.code, end.out.as_str()),
        (0, &*format!("KEY  HOLDING  WAITING\n{KEY_HELD}\n")),
        "{end:?}"
    );
}

#[test]
fn warnings_of_the_store_are_shown_where_others_rely_on_it() {
    let setup = Setup::new().setting(&["maxmemory-policy", "allkeys-lru"]);
    let Some((_server, store)) = redis(setup) else { return };
    for (words, out) in [
        (&["run", "k", "--", "echo", "ran"][..], "ran\n"),
        (&["lead", "k", "--", "echo", "led"], "led\n"),
        (&["--json", "next", "k"], "{\"key\":\"k\",\"value\":1}\n"),
        (&["count", "k", "--per", "1h"], "1\n"),
    ] {
        let end = store.end(words);
        assert_eq!((end.code, end.out.as_str()), (0, out), "{end:?}");
        assert!(end.err.starts_with("tenure: warning: the server 127.0.0.1:"), "{end:?}");
        assert!(end.err.contains("allkeys-lru") && end.err.lines().count() == 1, "{end:?}");
        let quiet = store.end(&[&["--quiet"], words].concat());
        assert_eq!((quiet.code, quiet.err.as_str()), (0, ""), "{quiet:?}");
    }
    for words in [&["line", "k"][..], &["keys"], &["bench", "free", "--seconds", "1"]] {
        store.output(words);
    }
}

#[test]
fn every_kind_of_redis_keeps_locks() {
    if !have(&[REDIS]) {
        return;
    }
    let socket = Setup::new().unix_socket().start().unwrap();
    let mutual = Setup::new().user("tenure", PASSWORD).mutual_tls().start().unwrap();
    let (sentinels, cluster) = (Sentinels::start().unwrap(), Cluster::start().unwrap());
    let socket_url = format!("redis+unix://{}", socket.socket().unwrap().display());
    for url in [socket_url, mutual.url(), sentinels.url(), cluster.url()] {
        let store = Store::at(url);
        let script = "\"$0\" keys; \"$0\" run k --no-wait -- true; echo $?";
        let tenure = env!("CARGO_BIN_EXE_tenure");
        let end = store.end(&["run", "k", "--", "sh", "-c", script, tenure]);
        assert_eq!(
            (end.code, end.out.as_str()),
            (0, &*format!("KEY  HOLDING  WAITING\n{KEY_HELD}\n75\n")),
            "{end:?}"
        );
        assert!(end.err.starts_with("tenure: `k` is busy, held by sh["), "{end:?}");
        assert_eq!(store.output(&["next", "k"]), "1\n");
        assert_eq!(store.output(&["keys"]), "");
    }
}

#[test]
fn a_redlock_needs_a_majority() {
    if !have(&[REDIS]) {
        return;
    }
    let masters = Masters::start(3).unwrap();
    let young = Store::at(masters.url());
    is_refused(&young.end(&["run", "k", "--", "true"]), 69, "it gives none for another");

    let store = Store::at(masters.url() + "?after_restart=trust&timeout=5s");
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let words = ["run", "k", "--", "sh", "-c", "\"$0\" keys; \"$0\" line --json k", tenure];
    let said = store.output(&words);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!((lines[1], field(lines[2], "state")), (KEY_HELD, "holding"));
    assert!(field(lines[2], "expires_in_ms").parse::<u64>().is_ok(), "{said}");
    is_refused(&store.end(&["next", "k"]), 77, "no counters");
    is_refused(&store.end(&["run", "s", "--permits", "1/3", "--", "true"]), 77, "semaphore of 3");
    let bench = store.output(&["bench", "--seconds", "1", "--tasks", "2"]);
    assert_eq!(bench.lines().count(), 5, "{bench}");

    let [first, second, _] = masters.servers() else { panic!("there are three") };
    let at = [first, second].map(|server| format!("127.0.0.1:{}", server.port()));
    first.kill().unwrap();
    let end = store.end(&["run", "k", "--", "echo", "ran"]);
    assert_eq!((end.code, end.out.as_str()), (0, "ran\n"), "{end:?}");
    assert!(end.err.starts_with("tenure: warning: ") && end.err.contains(&at[0]), "{end:?}");
    second.kill().unwrap();
    let end = store.end(&["run", "k", "--", "true"]);
    is_refused(&end, 69, "no majority of 127.0.0.1:");
    assert!(at.iter().all(|server| end.err.contains(server)), "{end:?}");
}
