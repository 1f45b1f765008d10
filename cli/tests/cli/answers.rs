//! The answers of the commands in a pipe: tables with titles, and the documented JSON.

use std::io::{BufRead as _, BufReader};

use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{Store, end, eventually, field, fields};
use crate::pty::Pty;

#[test]
fn a_sequence_has_no_gaps() {
    let store = Store::new();
    assert_eq!(store.output(&["next", "k"]), "1\n");
    assert_eq!(store.output(&["next", "k", "--count", "3"]), "2\n3\n4\n");
    assert_eq!(store.output(&["--json", "next", "k"]), "{\"key\":\"k\",\"value\":5}\n");
    assert_eq!(store.output(&["next", "other"]), "1\n");
}

#[test]
fn a_count_stops_at_its_limit() {
    let store = Store::new();
    let count = ["count", "k", "--per", "1h", "--limit", "3", "--by", "2"];
    assert_eq!(store.output(&count), "2\n");
    let refused = store.end(&count);
    assert_eq!((refused.code, refused.out.as_str()), (75, "2\n"));
    assert!(refused.err.contains("starts anew in"), "{}", refused.err);
    let json = store.end(&[&count[..], &["--json"]].concat());
    assert_eq!(json.code, 75);
    assert_eq!(fields(&json.out), ["key", "value", "resets_in_ms", "allowed"]);
    assert_eq!((field(&json.out, "value"), field(&json.out, "allowed")), ("2", "false"));
    assert_eq!(store.output(&["count", "k", "--per", "1h", "--by", "0"]), "2\n");
    let above = store.end(&["count", "k", "--per", "1h", "--by", "0", "--limit", "1"]);
    assert_eq!((above.code, above.out.as_str()), (75, "2\n"));
    assert!(above.err.contains("is at 2 and is above the limit"), "{}", above.err);
}

#[test]
fn an_empty_line_says_nothing() {
    let store = Store::new();
    store.output(&["run", "k", "--", "true"]);
    assert_eq!(store.output(&["line", "k"]), "");
    assert_eq!(store.output(&["line", "k", "--json"]), "");
    assert_eq!(store.output(&["keys"]), "");
}

#[test]
fn a_line_shows_holders_and_waiters() {
    let store = Store::new();
    let sleep = ["--", "sleep", "600"];
    let note = ["run", "k", "--permits", "2/3", "--note", "a\n\"b\""];
    let _holder = store.start(&[&note[..], &sleep].concat());
    store.line_has("k", 1);
    let _waiter = store.start(&[&["run", "k", "--permits", "3/3"][..], &sleep].concat());
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
    assert_eq!(fields(&line[1]), names);
    assert_eq!(field(&line[0], "state"), "holding");
    assert!(line[0].contains("\"permits\":{\"take\":2,\"of\":3},"), "{}", line[0]);
    let end = "\"note\":\"a\\n\\\"b\\\"\",\"expires_in_ms\":null,\"since_ms\":";
    let since = |at: usize| field(&line[at], "since_ms").parse::<u64>().unwrap();
    assert!(line[0].ends_with(&format!("{end}{}}}", since(0))), "{}", line[0]);
    assert!(since(0) >= since(1), "the first came first: {line:?}");
    assert_eq!((field(&line[1], "state"), field(&line[1], "position")), ("waiting", "2"));
    let token = |at: usize| field(&line[at], "token").parse::<u64>().unwrap();
    assert!(token(0) < token(1));

    let table = store.output(&["line", "k"]);
    let rows: Vec<_> = table.lines().collect();
    assert_eq!(rows.len(), 3);
    assert!(rows[0].starts_with("ID        STATE    "), "a pipe has the title, too: {table}");
    let begin = format!("{}  holding  ", &field(&line[0], "id")[..8]);
    assert!(rows[1].starts_with(&begin) && table.contains("2/3"), "{table}");
    let numbers = [0, 1].map(|at| token(at).to_string());
    assert!(numbers.iter().all(|number| !table.contains(number)), "no fence takes them: {table}");
    assert!(table.contains("a\\n\"b\"") && !table.contains('\u{1b}'), "{table}");
    assert_eq!(store.output(&["keys"]), "KEY  HOLDING  WAITING\nk          1        1\n");
    assert_eq!(
        store.output(&["keys", "k", "--json"]),
        "{\"key\":\"k\",\"holding\":1,\"waiting\":1}\n"
    );
    assert_eq!(store.output(&["keys", "other"]), "");
}

#[test]
fn a_plain_lock_excludes_shared_holders() {
    let store = Store::new();
    let holder = store.start(&["run", "k", "--shared", "--", "sleep", "600"]);
    store.line_has("k", 1);
    assert_eq!(store.output(&["run", "k", "--shared", "--", "echo", "beside"]), "beside\n");
    for word in [&[][..], &["--exclusive"]] {
        let busy = store.end(&[&["run", "k", "--no-wait"], word, &["--", "true"]].concat());
        assert_eq!(busy.code, 75, "{}", busy.err);
    }
    let waiter = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 2);
    let line = store.line("k");
    assert_eq!([0, 1].map(|at| field(&line[at], "kind")), ["shared", "exclusive"]);
    assert!(line.iter().all(|line| line.contains("\"permits\":null,")), "{line:?}");
    let table = store.output(&["line", "k"]);
    assert!(table.contains("  shared") && table.contains("  exclusive"), "{table}");
    assert!(!table.contains("1073741824"), "{table}");
    drop(holder);
    eventually("the writer's turn", || field(&store.line("k")[0], "state") == "holding");
    drop(waiter);
}

#[test]
fn a_key_that_is_used_in_two_ways_is_refused() {
    let store = Store::new();
    let _holder = store.start(&["run", "k", "--permits", "1/5", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let mixed = store.end(&["run", "k", "--", "true"]);
    assert_eq!(mixed.code, 64);
    assert!(mixed.err.contains("semaphore of 5, and was asked for as a mutex"), "{}", mixed.err);
}

#[test]
fn events_are_watched() {
    let store = Store::new();
    store.output(&["run", "b/outside", "--", "true"]);
    let mut watch = store.tenure(&["watch", "a/", "--json"]).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    // The watch begins at an unknown time: others lock and release until it shows an event.
    let first = std::thread::spawn(move || lines.next().map(|line| (line.unwrap(), lines)));
    while !first.is_finished() {
        store.output(&["run", "b/outside", "--", "true"]);
        store.output(&["run", "a/k", "--", "true"]);
    }
    let (line, mut lines) = first.join().unwrap().unwrap();
    assert_eq!(fields(&line), ["at", "key", "event", "id", "token", "owner"]);
    assert_eq!(field(&line, "key"), "a/k");
    let at = field(&line, "at");
    assert!(at.len() == 27 && at.ends_with('Z') && at.as_bytes()[10] == b'T', "{at}");
    store.output(&["run", "a/last", "--", "true"]);
    let mut seen = Vec::new();
    while seen.len() < 3 {
        let line = lines.next().unwrap().unwrap();
        if field(&line, "key") == "a/last" {
            seen.push(field(&line, "event").to_owned());
        }
    }
    assert_eq!(seen, ["joined", "served", "left"]);
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn the_one_that_holds_is_broken_where_others_wait() {
    let store = Store::new();
    let holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let waiter = store.start(&["run", "k", "--", "echo", "served"]);
    store.line_has("k", 2);
    let said = store.output(&["break", "k"]);
    assert!(said.contains(&format!("sleep[{}]", holder.pid())), "{said}");
    assert_eq!(holder.end().code, 79);
    assert_eq!(waiter.end().out, "served\n");
}

#[test]
fn where_several_hold_a_break_says_what_to_add() {
    let store = Store::new();
    let share = ["run", "k", "--shared", "--", "sleep", "600"];
    let _holders = [store.start(&share), store.start(&share)];
    store.line_has("k", 2);
    let said = store.end(&["break", "k"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            64,
            "tenure: `k` has 2 holders: add --holder to break all of them, or --ticket with the id that `line` shows\n"
        )
    );
}

#[test]
fn a_forced_break_says_that_the_next_is_served_only_where_one_waits() {
    let store = Store::new();
    let _holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let said = store.output(&["break", "k", "--force"]);
    assert!(said.contains("is out; if") && !said.contains("next is served"), "{said}");
    let _holder = store.start(&["run", "other", "--", "sleep", "600"]);
    store.line_has("other", 1);
    let _waiter = store.start(&["run", "other", "--", "sleep", "600"]);
    store.line_has("other", 2);
    let said = store.output(&["break", "other", "--force"]);
    assert!(said.contains("is out, and the next is served; if"), "{said}");
}

#[test]
fn a_busy_reader_learns_of_the_writer_ahead() {
    let store = Store::new();
    let _reader = store.start(&["run", "k", "--shared", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let writer = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 2);
    let busy = store.end(&["run", "k", "--shared", "--no-wait", "--", "true"]);
    assert_eq!(busy.code, 75);
    let ahead = format!("sleep[{}]", writer.pid());
    assert!(busy.err.contains(&ahead) && busy.err.contains("waits ahead"), "{}", busy.err);
}

#[test]
fn tickets_are_broken() {
    let store = Store::new();
    store.output(&["run", "k", "--", "true"]);
    for words in [&["break", "k"][..], &["break", "k", "--holder"]] {
        let none = store.end(words);
        assert_eq!((none.code, none.err.as_str()), (1, "tenure: `k` has no holder\n"));
    }
    let id = "0123456789abcdef0123456789abcdef";
    let none = store.end(&["break", "k", "--ticket", id]);
    assert_eq!(none.code, 1);
    assert!(none.err.contains("there is no ticket"), "{}", none.err);

    let holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let waiter = store.start(&["run", "k", "--", "true"]);
    store.line_has("k", 2);
    let line = store.line("k");
    // The beginning of an id is enough if no other id has it.
    let [first, second] = [0, 1].map(|at| field(&line[at], "id"));
    let alike = first.bytes().zip(second.bytes()).take_while(|(one, other)| one == other).count();
    let said = store.output(&["break", "k", "--ticket", &second[..=alike.max(7)]]);
    assert!(said.starts_with(&format!("ticket {} of true[", &second[..8])), "{said}");
    assert!(said.ends_with("was waiting, and is out\n"), "{said}");
    let end = waiter.end();
    assert_eq!(end.code, 75, "{end:?}");
    assert!(end.err.contains("a break removed this ticket from the line"), "{}", end.err);
    let said = store.output(&["break", "k"]);
    assert!(said.contains("was asked to leave"), "{said}");
    let held = holder.end();
    assert_eq!(held.code, 79, "{held:?}");
    assert!(held.err.contains("asked this holder to leave"), "{held:?}");
    assert_eq!(store.line("k").len(), 0);
}

#[test]
fn a_break_waits_until_the_holder_is_out() {
    let store = Store::new();
    let stubborn = "trap '' TERM; echo pid $$ >>$LOG; while :; do sleep 0.02; done";
    let words = ["run", "k", "--kill-after", "700ms", "--", "sh", "-c", stubborn];
    let holder = store.start(&words);
    store.log_has("pid");
    let said = store.output(&["break", "k", "--wait"]);
    let (first, second) = said.split_once('\n').unwrap();
    assert!(first.contains("was asked to leave"), "{said}");
    assert!(second.starts_with("ticket ") && second.ends_with(" is out\n"), "{said}");
    assert_eq!(store.line("k").len(), 0);
    assert_eq!(holder.end().code, 79);

    std::fs::remove_file(store.path("log")).unwrap();
    let words = ["run", "k", "--on-lost", "warn", "--", "sh", "-c", stubborn];
    let holder = store.start(&words);
    store.log_has("pid");
    let end = store.end(&["break", "k", "--wait", "0.2"]);
    assert_eq!(end.code, 75);
    assert!(end.err.contains("was asked to leave and still holds `k`"), "{}", end.err);
    assert_eq!(field(&store.line("k")[0], "state"), "leaving");
    let end = store.end(&["break", "k", "--wait", "100ms", "--json"]);
    assert_eq!(end.code, 75);
    assert_eq!((field(&end.out, "was"), field(&end.out, "out")), ("told", "false"));
    let said = store.output(&["break", "k", "--force-after", "200ms"]);
    assert!(
        said.contains("was asked to leave") && said.contains("works without the lock"),
        "{said}"
    );
    assert_eq!(store.line("k").len(), 0);
    let pid = crate::run::pids(&store.log())[0];
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(holder.end().code, 79);
}

#[test]
fn a_short_help_fits_a_screen() {
    let store = Store::new();
    let verbs = [
        "run", "once", "lead", "take", "renew", "drop", "show", "line", "ps", "keys", "break",
        "watch", "next", "count", "bench", "setup", "doctor", "top", "serve", "mcp",
    ];
    for words in std::iter::once(vec!["-h"]).chain(verbs.iter().map(|verb| vec![*verb, "-h"])) {
        let (_, shown) = Pty::start(&store.tenure(&words), 80).end();
        let lines: Vec<_> = shown.lines().collect();
        // The list of all commands has a line for each.
        let most = if words.len() == 1 { 15 + verbs.len() } else { 24 };
        assert!(lines.len() <= most, "{words:?} has {} lines: {shown}", lines.len());
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{words:?}: {shown}");
    }
    let help = store.output(&["-h"]);
    for verb in verbs {
        let line = help.lines().find(|line| line.split_whitespace().next() == Some(verb)).unwrap();
        assert!(line.split_whitespace().count() > 2, "nothing is said of {verb}: {help}");
    }
}

#[test]
fn a_ticket_is_forced_out() {
    let store = Store::new();
    let holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let said = store.output(&["break", "k", "--holder", "--force", "--json"]);
    assert_eq!(fields(&said), ["key", "id", "was", "out"]);
    assert_eq!(field(&said, "was"), "holding");
    assert_eq!(holder.end().code, 79);
}

#[test]
fn a_bench_measures_and_cleans_up() {
    let store = Store::new();
    for url in [store.url().as_str(), "memory:"] {
        let words = ["--on", url, "bench", "--seconds", "1", "--tasks", "3", "--json"];
        let lines = store.output(&words);
        let cases: Vec<_> = lines.lines().map(|line| field(line, "case")).collect();
        assert_eq!(cases, ["free", "parallel", "handover", "crowd"]);
        for line in lines.lines() {
            assert_eq!(fields(line)[..4], ["case", "ops_per_s", "p50_us", "p99_us"]);
            assert!(field(line, "ops").parse::<u64>().unwrap() > 0, "{line}");
        }
    }
    assert_eq!(store.output(&["keys"]), "");
    let table = store.output(&["bench", "free", "--seconds", "1"]);
    assert!(table.starts_with("CASE  ") && table.lines().count() == 2, "{table}");
}

#[test]
fn a_store_without_tables_needs_no_setup() {
    let store = Store::unmade();
    for words in [&["setup"][..], &["setup", "--dry-run"]] {
        let end = store.end(words);
        assert_eq!((end.code, end.out.as_str()), (0, ""), "{end:?}");
        assert_eq!(end.err, "tenure: this store has no tables, and needs no setup\n");
    }
    assert_eq!(store.end(&["setup", "--quiet"]).err, "");
    assert!(!store.path("store").exists(), "no store is made");
    assert_eq!(store.end(&["--on", "memory:", "setup"]).code, 77);
    assert_eq!(store.end(&["setup", "--json"]).code, 64);
}

#[test]
fn pages_are_written() {
    let store = Store::new();
    for shell in ["bash", "zsh", "fish"] {
        let page = store.output(&["completions", shell]);
        assert!(page.contains("kill-after") && page.contains("on-lost"), "{shell}");
        assert!(!page.contains("bench-partner"), "{shell}: it is hidden");
    }
    let man = store.output(&["man"]);
    assert!(man.contains("TENURE RUN") && man.contains("backup.sh"), "{man}");
    assert!(!man.contains("(1)\n"), "only this page is made: {man}");
    assert!(man.contains(r"<\fIKEY\fR> \-\- <\fICMD\fR>"), "the command stands behind `--`: {man}");
    let verbs = [
        "run", "once", "lead", "line", "ps", "keys", "break", "watch", "next", "count", "bench",
        "setup", "doctor", "top", "mcp",
    ];
    for verb in verbs {
        for words in [&["help", verb][..], &[verb, "--help"]] {
            let help = store.output(words);
            assert!(help.contains("Example"), "{help}");
            assert!(help.contains(&format!("tenure {verb}")), "{help}");
        }
    }
    assert!(store.output(&["--version"]).starts_with("tenure "));
    assert!(end(&mut store.tenure(&["help"])).out.contains("Exit codes"));
}
