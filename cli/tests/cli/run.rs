//! `tenure run`: codes and signals pass, and no command runs without the lock.

use std::io::{self, BufRead as _, BufReader};
use std::process::Command;

use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process};

use crate::keeper::CHECK;
use crate::kit::{Running, Store, end, eventually, field, is_alive, write};

/// The pipe of standard error is full, and its reader hangs.
#[test]
fn a_command_runs_and_its_lock_is_released_without_a_reader_of_the_messages() {
    let store = Store::new();
    let (_hangs, full) = io::pipe().unwrap();
    ioctl_fionbio(&full, true).unwrap();
    while rustix::io::write(&full, &[0; 4096]).is_ok() {}
    ioctl_fionbio(&full, false).unwrap();
    let mut command = store.tenure(&["run", "--verbose", "k", "--", "sh", "-c", "echo ran >>$LOG"]);
    let _run = Running::of(command.stderr(full));
    store.log_has("ran");
    store.line_has("k", 0);
}

#[test]
fn the_exit_code_passes_through() {
    let store = Store::new();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 1015),
        ("kill -INT $$", 1002),
    ] {
        assert_eq!(store.end(&["run", "k", "--", "sh", "-c", script]).code, code, "{script}");
    }
    assert_eq!(store.line("k").len(), 0);
}

#[test]
fn the_command_knows_what_it_holds() {
    let store = Store::new();
    let script = "echo $TENURE_KEY; tenure_line=$(\"$0\" line --json k); echo \"$tenure_line\"; echo $TENURE_TOKEN";
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let said = store.output(&["run", "k", "--note", "mine", "--", "sh", "-c", script, tenure]);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "k");
    assert_eq!(field(lines[1], "token"), lines[2]);
    assert_eq!(field(lines[1], "note"), "mine");
}

#[test]
fn a_relative_store_stays_the_same_for_the_command() {
    let store = Store::new();
    std::fs::create_dir(store.path("elsewhere")).unwrap();
    let script = "cd elsewhere && \"$0\" line --json k";
    let words =
        ["--on", "file:near", "run", "k", "--", "sh", "-c", script, env!("CARGO_BIN_EXE_tenure")];
    let mut run = store.tenure(&words);
    let output = run.current_dir(store.path("")).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("holding"), "{output:?}");
}

#[test]
fn the_next_is_served_with_a_higher_token() {
    hands_over(&Store::new());
}

/// The second waits for the first, whose token is lower.
pub(crate) fn hands_over(store: &Store) {
    let script = "echo begin $TENURE_TOKEN >>$LOG; cat >/dev/null";
    let mut command = store.tenure(&["run", "k", "--", "sh", "-c", script]);
    let mut first = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    store.log_has("begin");
    let second = store.start(&["run", "k", "--", "sh", "-c", "echo second $TENURE_TOKEN >>$LOG"]);
    store.line_has("k", 2);
    assert!(!store.log().contains("second"));
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    assert_eq!(second.end().code, 0);
    let log = store.log();
    let tokens: Vec<u64> = log.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(tokens.len() == 2 && tokens[0] < tokens[1], "{log}");
}

#[test]
fn a_busy_answer_names_the_holder() {
    names_the_holder(&Store::new());
}

/// A busy answer and a time-out name the holder.
pub(crate) fn names_the_holder(store: &Store) {
    let holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let owner = format!("sleep[{}] ", holder.pid());
    for (words, with) in [
        (&["run", "k", "--no-wait", "--", "true"][..], "`k` is busy, held by"),
        // Long enough to connect on a busy machine: the time counts for that, too.
        (&["run", "k", "--wait", "2s", "--", "true"], "timed out after 2s"),
    ] {
        let end = store.end(words);
        assert_eq!((end.code, end.out.as_str()), (75, ""));
        assert!(end.err.contains(with) && end.err.contains(&owner), "{}", end.err);
    }
    assert_eq!(store.line("k").len(), 1);
}

#[test]
fn a_long_wait_is_reported_once_outside_of_a_terminal() {
    let store = Store::new();
    let holder = store.start(&["run", "k", "--note", "at it", "--", "sleep", "600"]);
    store.line_has("k", 1);
    for verb in ["run", "lead"] {
        let quiet = store.start(&["--quiet", verb, "k", "--", "true"]);
        store.line_has("k", 2);
        let mut waiter = store.tenure(&[verb, "k", "--", "true"]).spawn().unwrap();
        let mut said = BufReader::new(waiter.stderr.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        let held = format!("for `k`, place 2 in line, held by sleep[{}] ", holder.pid());
        assert!(first.starts_with("tenure: waiting 1") && first.contains(&held), "{first}");
        assert!(first.ends_with(" (at it)"), "{first}");
        for pid in [quiet.pid(), waiter.id().try_into().unwrap()] {
            kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        }
        assert_eq!(quiet.end().err, "");
        assert!(said.next().is_none());
        waiter.wait().unwrap();
    }
}

#[test]
fn a_waiter_that_is_interrupted_leaves_the_line() {
    leaves_when_interrupted(&Store::new());
}

/// A waiter that is interrupted leaves the line, and says nothing.
pub(crate) fn leaves_when_interrupted(store: &Store) {
    let _holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    for (signal, code) in [(Signal::INT, 1002), (Signal::TERM, 1015), (Signal::HUP, 1001)] {
        for verb in ["run", "lead"] {
            let waiter = store.start(&[verb, "k", "--", "true"]);
            store.line_has("k", 2);
            waiter.signal(signal);
            let end = waiter.end();
            assert_eq!((end.code, end.err.as_str()), (code, ""));
            assert_eq!(store.line("k").len(), 1);
        }
    }
}

#[test]
fn a_script_that_names_no_interpreter_runs_in_a_shell() {
    let store = Store::new();
    write(&store.path("script"), "echo ran $1; exit 0", 0o755);
    let path = store.path("script").display().to_string();
    assert_eq!(store.output(&["run", "k", "--", &path, "well"]), "ran well\n");
}

#[test]
fn a_run_inside_a_run_of_the_same_key_is_refused() {
    let store = Store::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let inner = |words: &str| format!("'{tenure}' run {words} -- echo inner");
    for (outer, script) in [
        (&["run", "k"][..], inner("k")),
        (&["run", "k"], inner("k --wait 1h")),
        (&["run", "k"], inner("k --shared")),
        (&["lead", "k"], inner("k")),
        (&["run", "k", "--permits", "1/2"], inner("k --permits 2/2")),
        // With another one between them.
        (&["run", "k"], format!("'{tenure}' run other -- {}", inner("k"))),
    ] {
        let end = store.end(&[outer, &["--", "sh", "-c", &script]].concat());
        assert_eq!((end.code, end.out.as_str()), (64, ""), "{outer:?} {script}: {}", end.err);
        let sentence = "`k` is held by the `tenure run` around this one (token ";
        assert!(end.err.contains(sentence), "{}", end.err);
    }
    for (outer, words) in [
        (&["run", "k"][..], "other"),
        (&["run", "k", "--shared"], "k --shared"),
        (&["run", "k", "--permits", "1/2"], "k --permits 1/2"),
    ] {
        let script = inner(words);
        assert_eq!(store.output(&[outer, &["--", "sh", "-c", &script]].concat()), "inner\n");
    }
    // With --no-wait it is busy.
    let script = inner("k --no-wait");
    assert_eq!(store.end(&["run", "k", "--", "sh", "-c", &script]).code, 75);
    // On another store it is another lock.
    std::fs::create_dir(store.path("other")).unwrap();
    let script = format!("TENURE_ON=file:'{}' {}", store.path("other").display(), inner("k"));
    assert_eq!(store.output(&["run", "k", "--", "sh", "-c", &script]), "inner\n");
}

#[test]
fn readers_inside_readers_do_not_wait_for_a_writer_between_them() {
    let store = Store::new();
    let script = "while [ ! -e $LOG ]; do sleep 0.02; done; \"$0\" run k --shared -- true";
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let outer = store.start(&["run", "k", "--shared", "--", "sh", "-c", script, tenure]);
    store.line_has("k", 1);
    let writer = store.start(&["run", "k", "--", "true"]);
    store.line_has("k", 2);
    std::fs::write(store.path("log"), "").unwrap();
    assert_eq!(outer.end().code, 64);
    assert_eq!(writer.end().code, 0);
}

#[test]
fn a_command_runs_without_proc() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can take /proc away");
        return;
    }
    let store = Store::new();
    let script =
        "umount -l /proc && \"$0\" run k -- sh -c '[ ! -e /proc/self ] && echo ran; exit 7'";
    let mut command = Command::new("unshare");
    store.dress(command.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_tenure")]));
    let end = end(&mut command);
    assert_eq!((end.code, end.out.as_str(), end.err.as_str()), (7, "ran\n", ""));
}

#[test]
fn the_end_of_a_command_is_seen_whatever_its_starter_did_to_signals() {
    let store = Store::new();
    for setting in
        ["$SIG{CHLD} = 'IGNORE'", "use POSIX; sigprocmask(SIG_BLOCK, POSIX::SigSet->new(SIGCHLD))"]
    {
        let script = format!("{setting}; exec @ARGV");
        let mut perl = Command::new("perl");
        perl.args(["-e", &script, env!("CARGO_BIN_EXE_tenure"), "run", "k"]);
        store.dress(perl.args(["--", "sh", "-c", "true & wait; exit 7"]));
        assert_eq!(end(&mut perl).code, 7, "{setting}");
        assert_eq!(store.line("k").len(), 0);
    }
}

#[test]
fn signals_reach_all_processes_of_the_command() {
    let store = Store::new();
    let grandchild =
        "trap 'echo grandchild >>$LOG; exit' USR1; echo ready >>$LOG; while :; do sleep 0.05; done";
    let script =
        format!("trap 'echo child >>$LOG; wait; exit 3' USR1; sh -c \"{grandchild}\" & wait");
    let run = store.start(&["run", "k", "--", "sh", "-c", &script]);
    store.log_has("ready");
    run.signal(Signal::USR1);
    assert_eq!(run.end().code, 3);
    store.log_has("grandchild");
    assert!(store.log().contains("child\n"));
}

#[test]
fn signals_end_the_command_and_its_code_is_theirs() {
    let store = Store::new();
    for (signal, code) in
        [(Signal::TERM, 1015), (Signal::INT, 1002), (Signal::HUP, 1001), (Signal::QUIT, 1003)]
    {
        let run = store.start(&["run", "k", "--", "sh", "-c", "echo ready >>$LOG; exec sleep 600"]);
        store.log_has("ready");
        run.signal(signal);
        assert_eq!(run.end().code, code);
        assert_eq!(store.line("k").len(), 0);
        std::fs::remove_file(store.path("log")).unwrap();
    }
}

#[test]
fn ignored_signals_stay_ignored() {
    let store = Store::new();
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let inner = "kill -HUP $$; echo survived";
    let script = format!("trap '' HUP; exec '{tenure}' run k -- sh -c '{inner}'");
    let mut shell = store.tenure(&[]);
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("TENURE_ON", store.url())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "survived\n", "{output:?}");
    let _ = shell.stdout(std::process::Stdio::null());
}

/// The command and its child ignore TERM.
pub(crate) const STUBBORN: &str = "trap '' TERM; echo pid $$ >>$LOG; \
    sh -c 'echo pid $$ >>$LOG; while :; do sleep 0.05; done' & \
    while :; do sleep 0.05; done";

/// The command ends on TERM, and its child ignores it.
pub(crate) const DESERTER: &str = "sh -c 'trap \"\" TERM; echo pid $$ >>$LOG; while :; do sleep 0.05; done' & \
    trap 'exit 0' TERM; echo pid $$ >>$LOG; while :; do sleep 0.05; done";

#[test]
fn the_next_begins_only_when_a_stubborn_one_is_gone() {
    begins_after_all_are_gone(&Store::new(), STUBBORN, 2);
}

#[test]
fn the_next_begins_only_when_no_process_is_left_behind() {
    begins_after_all_are_gone(&Store::new(), DESERTER, 2);
}

/// A command that is broken is ended, whatever it does, before the next one begins.
pub(crate) fn begins_after_all_are_gone(store: &Store, script: &str, count: usize) {
    let words = ["run", "k", "--kill-after", "300ms", "--", "sh", "-c", script];
    let stubborn = store.start(&words);
    eventually("all its processes", || pids(&store.log()).len() == count);
    let pids = pids(&store.log());
    let next = store.start(&["run", "k", "--", "sh", "-c", CHECK]);
    store.line_has("k", 2);
    assert!(store.output(&["break", "k", "--holder"]).contains("was asked to leave"));
    assert!(store.line("k").len() <= 2);
    assert_eq!(next.end().code, 0);
    assert!(!store.log().contains("overlap"), "{}", store.log());
    assert_eq!(stubborn.end().code, 79);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

#[test]
fn a_polite_command_may_take_its_time() {
    let store = Store::new();
    let script =
        "trap 'echo tidied >>$LOG; exit 0' TERM; echo ready >>$LOG; while :; do sleep 0.05; done";
    let run = store.start(&["run", "k", "--kill-after", "1h", "--", "sh", "-c", script]);
    store.log_has("ready");
    store.output(&["break", "k", "--holder"]);
    assert_eq!(run.end().code, 79);
    assert!(store.log().contains("tidied"));
}

pub(crate) fn pids(log: &str) -> Vec<i32> {
    log.lines().filter_map(|line| line.strip_prefix("pid ")?.parse().ok()).collect()
}

#[test]
fn the_letters_of_flock_are_known() {
    let store = Store::new();
    let holder = store.start(&["run", "-s", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    assert_eq!(store.output(&["run", "-s", "k", "--", "echo", "beside"]), "beside\n");
    for (letters, code) in [
        (&["-n"][..], 75),
        (&["-xn"], 75),
        (&["-e", "-w", "0.05"], 75),
        (&["-w", "0.05", "-E", "3"], 3),
        (&["-n", "-E", "0"], 0),
        (&["--nonblock", "--conflict-exit-code", "9"], 9),
        (&["--timeout", "0.05"], 75),
    ] {
        let end = store.end(&[&["run"][..], letters, &["k", "--", "echo", "alone"]].concat());
        assert_eq!((end.code, end.out.as_str()), (code, ""), "{letters:?}: {}", end.err);
        assert!(end.err.contains("is busy"), "{letters:?}: {}", end.err);
    }
    drop(holder);
}

#[test]
fn verbose_reports_the_lock_and_the_end() {
    let store = Store::new();
    let end = store.end(&["run", "-v", "k", "--", "sh", "-c", "exit 3"]);
    assert_eq!(end.code, 3);
    let lines: Vec<_> = end.err.lines().collect();
    assert!(lines[0].starts_with("tenure: `k` is held in the store in "), "{lines:?}");
    assert!(lines[0].contains(", with token "), "{lines:?}");
    assert_eq!(lines[1..], ["tenure: the command has ended with 3"]);
}

#[test]
fn a_command_that_must_not_be_killed_is_not() {
    let store = Store::new();
    let script =
        "echo pid $$ >>$LOG; while [ ! -e $LOG.end ]; do sleep 0.02; done; echo done >>$LOG";
    let words = ["run", "k", "--on-lost", "warn", "--", "sh", "-c", script];
    // It was broken, and its place is kept until it has ended.
    let run = store.start(&words);
    eventually("a process", || pids(&store.log()).len() == 1);
    store.output(&["break", "k"]);
    let next = store.start(&["run", "k", "--", "sh", "-c", "echo next >>$LOG"]);
    store.line_has("k", 2);
    std::fs::write(store.path("log.end"), "").unwrap();
    let end = run.end();
    assert_eq!(end.code, 79);
    assert!(end.err.contains("; the command works on, and others may work beside it"), "{end:?}");
    assert_eq!(next.end().code, 0);
    assert!(store.log().ends_with("done\nnext\n"), "{}", store.log());
    std::fs::remove_file(store.path("log.end")).unwrap();
    // Its `tenure` was killed, and the keeper waits for it.
    let run = store.start(&words);
    eventually("a process", || pids(&store.log()).len() == 2);
    let next = store.start(&["run", "k", "--", "sh", "-c", "echo next >>$LOG"]);
    store.line_has("k", 2);
    run.signal(Signal::KILL);
    std::fs::write(store.path("log.end"), "").unwrap();
    assert_eq!(next.end().code, 0);
    assert!(store.log().ends_with("done\nnext\n"), "{}", store.log());
}

/// The keeper blocks TTOU for itself; the command must not inherit that.
#[cfg(target_os = "linux")]
#[test]
fn a_command_blocks_no_signals_that_its_starter_does_not() {
    let words = ["grep", "SigBlk", "/proc/self/status"];
    let alone = end(Command::new(words[0]).args(&words[1..]));
    let under_a_lock = Store::new().output(&[&["run", "k", "--"], &words[..]].concat());
    assert_eq!(under_a_lock, alone.out);
}
