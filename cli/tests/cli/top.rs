//! `tenure top`: the live table in a real terminal, and the lines for a pipe.

use std::io::{BufRead as _, BufReader};

use rustix::process::{Pid, Signal, kill_process};
use tenure_servers::redis::Setup;

use crate::bad_input::is_refused;
use crate::kit::{Running, Store, children, eventually, field, redis};
use crate::pty::Pty;

const ARROW_DOWN: &str = "\u{1b}[B";
const ESCAPE: &str = "\u{1b}";
/// The other screen, which leaves no trace.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";

fn holder(store: &Store, key: &str) -> Running {
    let before = store.line(key).len();
    let holder = store.start(&["run", key, "--", "sleep", "600"]);
    store.line_has(key, before + 1);
    holder
}

/// The live table. All lines are read once: later changes come by events.
fn top(store: &Store, words: &[&str]) -> Pty {
    let mut top = Pty::start(&store.tenure(&[&["top", "--every", "1h"], words].concat()), 100);
    top.shows(ENTER);
    top.shows("q quit");
    top
}

#[test]
fn events_change_the_table_without_a_read_of_all_lines() {
    let store = Store::new();
    let _first = holder(&store, "k");
    let mut top = top(&store, &[]);
    top.shows("1 key, 0 with waiters");
    top.shows("sleep[");
    let _waiter = store.start(&["run", "k", "--", "sleep", "600"]);
    top.shows("1 key, 1 with waiters");
    let other = holder(&store, "other");
    top.shows("2 keys, 1 with waiters");
    drop(other);
    top.shows("1 key, 1 with waiters");
    top.write("q");
    let (code, shown) = top.end();
    assert!(code == 0 && shown.ends_with(LEAVE), "{code}: {shown}");
    assert!(shown.contains(" joined k sleep["), "{shown}");
}

#[test]
fn a_filter_is_typed_and_discarded() {
    let store = Store::new();
    let _holders = [holder(&store, "invoices/1"), holder(&store, "report")];
    let mut top = top(&store, &[]);
    top.shows("2 keys");
    top.write("/oicex");
    top.shows("0 contain `oicex`");
    top.shows("filter: oicex_");
    top.write("\u{7f}");
    top.shows("1 contain `oice`");
    top.write("\n");
    top.shows("q quit");
    top.write(&format!("/s{ESCAPE}"));
    top.shows("1 contain `oice`");
    top.write("q");
    assert_eq!(top.end().0, 0);
}

#[test]
fn the_holder_of_the_selected_key_is_asked_to_leave_after_a_question() {
    let store = Store::new();
    let (other, first) = (holder(&store, "a"), holder(&store, "k"));
    let pid = first.pid();
    let second = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 2);
    let mut top = top(&store, &[]);
    top.shows("2 keys, 1 with waiters");
    // The key with a waiter is the first.
    top.write(ARROW_DOWN);
    top.write("kb");
    top.shows(&format!("ask sleep[{pid}]"));
    top.shows("to leave `k`? It is asked to stop its work");
    top.shows("y ask   any other key: no");
    top.write("n");
    top.shows("was not asked to leave");
    assert_eq!(store.line("k").len(), 2);
    top.write("b");
    top.shows("y ask");
    top.write("y");
    assert_eq!(first.end().code, 79);
    eventually("the next holder", || {
        let line = store.line("k");
        line.len() == 1 && field(&line[0], "state") == "holding"
    });
    top.shows(&format!("sleep[{}]", second.pid()));
    // The line has no waiter any more, and the older key is the first.
    top.write("q");
    assert_eq!(top.end().0, 0);
    assert_eq!(store.line("a").len(), 1);
    drop(other);
}

#[test]
fn several_holders_are_left_to_the_command() {
    let store = Store::new();
    let _readers = ["-s", "-s"].map(|option| {
        let before = store.line("k").len();
        let reader = store.start(&["run", option, "k", "--", "sleep", "600"]);
        store.line_has("k", before + 1);
        reader
    });
    let mut top = top(&store, &[]);
    top.shows("and 1 more");
    top.write("b");
    top.shows("`k` has 2 holders: `tenure line -- k` shows their ids");
    top.write("q");
    assert_eq!(top.end().0, 0);
    assert_eq!(store.line("k").len(), 2);
}

#[test]
fn a_signal_restores_the_terminal_and_ends_the_process() {
    let store = Store::new();
    let _holder = holder(&store, "k");
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let program = env!("CARGO_BIN_EXE_tenure");
        // With the trap, the shell goes on after the interrupt key.
        let script = format!("trap : INT; {program} top; echo \"end $?\"; stty -a; echo done");
        let mut command = std::process::Command::new("bash");
        store.dress(command.args(["-c", &script]));
        let mut top = Pty::start(&command, 100);
        top.shows("1 key");
        if signal == Signal::INT {
            top.write("\u{3}");
        } else {
            let pid = children(top.pid())[0];
            kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
        }
        top.shows(LEAVE);
        let number = 128 + signal.as_raw();
        top.shows(&format!("end {number}"));
        let (_, shown) = top.end();
        let modes = shown.rsplit("end ").next().unwrap_or_default();
        assert!(modes.contains(" icanon ") && modes.contains(" echo "), "{signal:?}: {modes}");
    }
}

#[test]
fn the_stop_key_gives_the_terminal_to_the_shell_and_the_table_comes_back() {
    let store = Store::new();
    let _holder = holder(&store, "k");
    let program = env!("CARGO_BIN_EXE_tenure");
    let script = format!("{program} top; stty -a | grep -o ' icanon'; fg; echo \"end $?\"");
    let mut command = std::process::Command::new("bash");
    store.dress(command.args(["-mc", &script]));
    let mut top = Pty::start(&command, 100);
    top.shows("1 key");
    top.write("\u{1a}");
    top.shows(LEAVE);
    top.shows(" icanon");
    top.shows(ENTER);
    top.shows("1 key");
    top.write("q");
    top.shows("end 0");
    top.end();
}

#[test]
fn a_terminal_that_changes_its_size_is_drawn_anew() {
    let store = Store::new();
    let _holders: Vec<_> = ["a", "b", "c"].map(|key| holder(&store, key)).into();
    let mut top = top(&store, &[]);
    top.shows("3 keys");
    top.resize(30, 6);
    // The foot is on the last two of six rows, cut to the width.
    top.shows("\u{1b}[6;1Hq quit  / filter  b break  j …");
    top.resize(100, 24);
    top.shows("\u{1b}[24;1Hq quit");
    top.write("q");
    assert_eq!(top.end().0, 0);
}

#[test]
fn a_pipe_gets_lines_once_or_again_and_again() {
    let store = Store::new();
    let holder = holder(&store, "invoices/1");
    let table = store.output(&["top"]);
    let rows: Vec<_> = table.lines().collect();
    let titles = ["KEY", "HELD", "BY", "WAITING", "JOINED", "LEFT", "TOKEN"];
    assert_eq!(rows[0].split_whitespace().collect::<Vec<_>>(), titles);
    assert_eq!(rows.len(), 2, "{table}");
    let begins = format!("invoices/1  sleep[{}]", holder.pid());
    assert!(rows[1].starts_with(&begins), "{table}");
    assert_eq!(store.output(&["top", "report"]).lines().count(), 1);

    let mut again = store.tenure(&["top", "--every", "100ms"]).spawn().unwrap();
    let lines = BufReader::new(again.stdout.take().unwrap()).lines();
    let tables = lines.map_while(Result::ok).filter(|line| line.starts_with("KEY")).take(3);
    assert_eq!(tables.count(), 3);
    // The pipe is closed.
    assert!(!again.wait().unwrap().success());
}

#[test]
fn wrong_uses_are_refused() {
    let store = Store::new();
    is_refused(&store.end(&["top", "--json"]), 64, "has no answer to write as JSON");
    for every in ["0s", "2d", "soon"] {
        assert_eq!(store.end(&["top", "--every", every]).code, 64, "{every}");
    }
    is_refused(&store.end(&["--on", "redis://127.0.0.1:1", "top"]), 69, "no server listens");
    is_refused(&store.end(&["--on", "memory:", "top"]), 77, "visible to one process only");
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let store = Store::new();
    let _holder = holder(&store, "k");
    let (code, shown) = Pty::start(store.tenure(&["top"]).env("TERM", "dumb"), 100).end();
    assert!(code == 0 && shown.contains("HELD BY") && !shown.contains('\u{1b}'), "{shown:?}");
    let pid = field(&store.output(&["ps", "--json"]), "pid").parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
}

#[test]
fn a_store_that_does_not_answer_is_reported_until_it_does() {
    let Some((server, store)) = redis(Setup::new()) else { return };
    let _holder = holder(&store, "k");
    let mut top = Pty::start(&store.tenure(&["top", "--every", "100ms"]), 100);
    top.shows("1 key, 0 with waiters");
    server.kill().unwrap();
    top.shows("is it running?");
    // The last state stays on the screen.
    top.shows("1 key, 0 with waiters");
    server.restart().unwrap();
    top.shows("0 keys, 0 with waiters");
    top.write("q");
    assert_eq!(top.end().0, 0);
}
