//! Every command in a real terminal.

use std::process::Command;

use crate::kit::{Store, field};
use crate::pty::Pty;

/// The interrupt, stop and end-of-file keys.
const CTRL_C: &str = "\u{3}";
const CTRL_Z: &str = "\u{1a}";
const CTRL_D: &str = "\u{4}";

fn tenure(store: &Store, words: &[&str]) -> Pty {
    Pty::start(&store.tenure(words), 80)
}

fn shell(store: &Store, options: &[&str], script: &str) -> Pty {
    shell_named("sh", store, options, script)
}

fn shell_named(name: &str, store: &Store, options: &[&str], script: &str) -> Pty {
    let script = script.replace("tenure ", concat!(env!("CARGO_BIN_EXE_tenure"), " "));
    let mut command = Command::new(name);
    command.args(options).args(["-c", &script]).env("TENURE_ON", store.url()).env("TERM", "xterm");
    Pty::start(&command, 80)
}

#[test]
fn a_command_reads_and_writes_the_terminal() {
    let store = Store::new();
    let mut pty = tenure(&store, &["run", "k", "--", "sh", "-c", "read x; echo \"<$x>\"; exit 4"]);
    pty.write("hello\n");
    pty.shows("<hello>");
    assert_eq!(pty.end().0, 4);
}

#[test]
fn a_command_in_a_pipeline_gets_the_terminal_when_it_asks() {
    let store = Store::new();
    let mut pty =
        shell(&store, &["-m"], "tenure run k -- sh -c 'read x; echo \"<$x>\"' | cat; echo end");
    store.line_has("k", 1);
    pty.write("hello\n");
    pty.shows("<hello>");
    pty.shows("end");
    assert_eq!(pty.end().0, 0);
}

#[test]
fn the_terminal_is_given_back() {
    let store = Store::new();
    let mut pty = shell(&store, &[], "tenure run k -- true; read x; echo \"<$x>\"");
    pty.write("after\n");
    pty.shows("<after>");
    assert_eq!(pty.end().0, 0);
}

#[test]
fn only_a_command_that_exits_by_itself_leaves_its_modes() {
    let store = Store::new();
    for (end, is_broken, echo) in [
        ("exit 3", false, "echo is off"),
        ("kill -KILL $$", false, "echo is on"),
        ("kill -INT $$", false, "echo is on"),
        ("exec sleep 600", true, "echo is on"),
    ] {
        let run = format!("tenure run k -- sh -c 'stty -echo; echo ready; {end}'");
        let look = "case $(stty -a) in *' -echo '*) echo echo is off;; *) echo echo is on;; esac";
        let script = format!("trap : INT; {run}; {look}");
        let mut pty = shell(&store, &[], &script);
        pty.shows("ready");
        if is_broken {
            store.output(&["break", "k", "--force"]);
        }
        pty.shows(echo);
        assert_eq!(pty.end().0, 0, "{end}");
    }
}

#[test]
fn the_interrupt_key_ends_the_command() {
    let store = Store::new();
    let mut pty = tenure(&store, &["run", "k", "--", "sh", "-c", "echo ready; exec sleep 600"]);
    pty.shows("ready");
    pty.write(CTRL_C);
    assert_eq!(pty.end().0, 1002);
    assert_eq!(store.line("k").len(), 0);
}

#[test]
fn the_interrupt_key_ends_a_loop_around_the_command() {
    let store = Store::new();
    let run = "tenure run k -- sh -c 'echo ready $$; exec sleep 600'";
    for (shell_of_it, options) in [("bash", &[][..]), ("bash", &["-m"]), ("dash", &[])] {
        for script in [
            format!("for i in 1 2; do {run}; done; echo on"),
            format!("for i in 1 2; do {run} | cat; done; echo on"),
        ] {
            let mut pty = shell_named(shell_of_it, &store, options, &script);
            pty.shows("ready");
            pty.write(CTRL_C);
            let (code, shown) = pty.end();
            assert_eq!(shown.matches("ready").count(), 1, "{shell_of_it} {options:?}: {shown}");
            assert!(!shown.contains("on\r"), "{shell_of_it} {options:?}: {shown}");
            // A shell with job control sees the end of a job, and no signal from the keyboard.
            let expected = if options.is_empty() { 1002 } else { 130 };
            assert_eq!(code, expected, "{shell_of_it} {options:?}: {shown}");
            assert_eq!(store.line("k").len(), 0);
        }
    }
}

#[test]
fn the_interrupt_key_ends_a_loop_around_a_wait() {
    let store = Store::new();
    let _holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let script = "for i in 1 2; do tenure run k -- true; done; echo on";
    let mut pty = shell_named("bash", &store, &[], script);
    pty.shows("waiting");
    pty.write(CTRL_C);
    let (code, shown) = pty.end();
    assert!(code == 1002 && !shown.contains("on\r"), "{shown}");
    assert_eq!(store.line("k").len(), 1);
}

#[test]
fn a_command_that_lives_through_the_interrupt_key_ends_no_loop() {
    let store = Store::new();
    let run =
        "tenure run k -- sh -c 'trap \"exit 3\" INT; echo ready; while :; do sleep 0.05; done'";
    let mut pty = shell_named("bash", &store, &[], &format!("{run}; echo on $?"));
    pty.shows("ready");
    pty.write(CTRL_C);
    pty.shows("on 3");
    assert_eq!(pty.end().0, 0);
}

#[test]
fn a_wait_is_shown_and_can_be_interrupted() {
    let store = Store::new();
    let holder = store.start(&["run", "k", "--note", "at it", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let mut pty = tenure(&store, &["run", "k", "--", "true"]);
    pty.shows("for `k`, place 1 in line, held by sleep[");
    pty.shows(&format!("{}]", holder.pid()));
    pty.write(CTRL_C);
    let (code, shown) = pty.end();
    assert_eq!(code, 1002, "{shown}");
    assert_eq!(store.line("k").len(), 1);
}

#[test]
fn a_wait_in_a_narrow_terminal_stays_in_its_line() {
    let store = Store::new();
    let _holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let mut pty = Pty::start(&store.tenure(&["run", "k", "--wait", "2s", "--", "true"]), 40);
    pty.shows("waiting");
    let (code, shown) = pty.end();
    assert_eq!(code, 75, "{shown}");
    let lines = shown.split(['\r', '\n']).filter(|line| line.starts_with("waiting"));
    for line in lines {
        assert!(line.chars().count() < 40, "{line}");
    }
}

#[test]
fn the_stop_key_stops_the_job_and_it_goes_on() {
    let store = Store::new();
    let mut pty = shell(&store, &["-m"], "tenure run k -- cat; echo stopped; fg; echo end $?");
    store.line_has("k", 1);
    pty.write("one\n");
    pty.shows("one\r\none\r\n");
    pty.write(CTRL_Z);
    pty.shows("stopped\r\n");
    pty.write("two\n");
    pty.shows("two\r\ntwo\r\n");
    pty.write(CTRL_D);
    pty.shows("end 0");
    assert_eq!(pty.end().0, 0);
}

#[test]
fn the_stop_key_without_a_shell_does_not_freeze() {
    let store = Store::new();
    let mut pty = tenure(&store, &["run", "k", "--", "cat"]);
    store.line_has("k", 1);
    pty.write("one\n");
    pty.shows("one\r\none\r\n");
    pty.write(CTRL_Z);
    pty.write("two\n");
    pty.shows("two\r\ntwo\r\n");
    pty.write(CTRL_D);
    assert_eq!(pty.end().0, 0);
}

#[test]
fn tables_fit_the_terminal() {
    let store = Store::new();
    let note = "a note that is too long for any narrow terminal, and \u{1b}[31m is not red";
    let words = ["run", "a key", "--note", note, "--", "sleep", "600"];
    let _holder = store.start(&words);
    store.line_has("a key", 1);
    for columns in [40, 80, 200] {
        for words in [&["line", "a key"][..], &["keys"]] {
            let (code, shown) = Pty::start(&store.tenure(words), columns).end();
            assert_eq!(code, 0, "{shown}");
            let plain = shown.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
            assert!(!plain.contains('\u{1b}'), "{shown:?}");
            for line in plain.lines() {
                assert!(line.chars().count() <= columns.into(), "{columns}: {line}");
            }
            assert!(shown.starts_with("\u{1b}[1m"), "{shown:?}");
            assert!(plain.contains("ID        STATE") || plain.contains("HOLDING"), "{shown}");
        }
        let mut quiet = store.tenure(&["keys"]);
        let (_, shown) = Pty::start(quiet.env("NO_COLOR", "1"), columns).end();
        assert!(!shown.contains('\u{1b}') && shown.contains("WAITING"), "{shown:?}");
    }
}

#[test]
fn the_others_answer_as_in_a_pipe() {
    let store = Store::new();
    for (words, with) in [
        (&["next", "k"][..], "1\r\n"),
        (&["count", "k", "--per", "1h"], "1\r\n"),
        (&["keys"], "no key has a holder or a waiter"),
        (&["keys", "a"], "no key that begins with `a` has a holder or a waiter"),
        (&["line", "k"], "`k` has no holder and no waiter"),
        (&["break", "k"], "`k` has no holder"),
        (&["run", "k", "--no-wait", "--", "echo", "ran"], "ran\r\n"),
        (&["lead", "k", "--", "echo", "led"], "led\r\n"),
        (&["bench", "free", "--seconds", "1"], "OPS/S"),
        (&["--help"], "Usage: tenure"),
        (&["run", "--help"], "--kill-after"),
        (&["completions", "bash"], "tenure"),
        (&["man"], ".TH tenure"),
    ] {
        let (_, shown) = tenure(&store, words).end();
        assert!(shown.contains(with), "{words:?}: {shown}");
    }
}

#[test]
fn events_are_watched_until_the_interrupt() {
    let store = Store::new();
    store.output(&["run", "k", "--", "true"]);
    let mut pty = tenure(&store, &["watch", "k"]);
    pty.shows("watching");
    let _holder = store.start(&["run", "k", "--", "sleep", "600"]);
    pty.shows("joined");
    pty.shows("served");
    let id = field(&store.line("k")[0], "id")[..8].to_owned();
    pty.write(CTRL_C);
    let (_, shown) = pty.end();
    assert!(shown.contains(&format!("  {id}  served ")), "{shown}");
}
