//! The keeper: the lock is free only after all processes of the command are gone, in whatever way
//! its `tenure` died.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use crate::kit::{
    End, Running, Store, children, end, eventually, is_alive, parent, redis, stands_still,
};
use crate::run::{begins_after_all_are_gone, pids};
use rustix::process::{Pid, Signal, geteuid, kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use tenure_servers::redis::Setup;
use tenure_servers::{Tool, have};

/// A command of five processes that ignore TERM; two have left its process group, one of them
/// without a parent.
pub(crate) const RUNAWAY: &str = "trap '' TERM; echo leader $$ >>$LOG; \
    work() { while :; do sleep 0.02; done; }; \
    setsid sh -c 'echo pid $$ >>$LOG; while :; do sleep 0.02; done' & \
    (setsid sh -c 'echo pid $$ >>$LOG; while :; do sleep 0.02; done' &) ; \
    (work & echo pid $! >>$LOG); work & echo pid $! >>$LOG; echo pid $$ >>$LOG; work";

/// The next holder's command: it logs which of the others still run.
pub(crate) const CHECK: &str = "for pid in $(sed -n 's/^pid //p' $LOG); do \
    case $(cut -d' ' -f3 /proc/$pid/stat 2>/dev/null) in ''|Z|X) ;; *) echo overlap $pid >>$LOG;; esac; \
    done; echo next >>$LOG";

/// A user who is not root.
const OTHER_USER: u32 = 65_534;

fn runaway(store: &Store) -> (Running, Vec<i32>) {
    let run = store.start(&["run", "k", "--", "sh", "-c", RUNAWAY]);
    eventually("five processes", || pids(&store.log()).len() == 5);
    let pids = pids(&store.log());
    (run, pids)
}

/// The first process of the runaway.
fn leader(store: &Store) -> i32 {
    let log = store.log();
    let line = log.lines().find_map(|line| line.strip_prefix("leader "));
    line.unwrap().parse().unwrap()
}

/// The keeper of the command with this first process.
fn keeper(leader: i32) -> Pid {
    Pid::from_raw(parent(leader)).unwrap()
}

/// Waits until a `tenure` has a keeper other than this one, with the session's file open.
fn successor(tenure: &Running, keeper: Pid) -> Pid {
    let is_keeper = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "lock-keeper\n")
    };
    let keeps = |pid: &i32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .any(|file| file.parent().is_some_and(|parent| parent.ends_with("sessions")))
    };
    let is_other = |pid: &i32| *pid != keeper.as_raw_nonzero().get();
    let find = || {
        let mut children = children(tenure.pid()).into_iter();
        children.find(|pid| is_other(pid) && is_keeper(pid) && keeps(pid))
    };
    eventually("another keeper", || find().is_some());
    find().and_then(Pid::from_raw).unwrap()
}

/// Kills the keeper of a command, and waits for its successor.
fn kill_keeper(tenure: &Running, leader: i32) -> Pid {
    let keeper = keeper(leader);
    kill_process(keeper, Signal::KILL).unwrap();
    successor(tenure, keeper)
}

#[test]
fn the_next_is_served_after_all_of_a_killed_command_is_gone() {
    let store = Store::new();
    for _ in 0..10 {
        let (run, pids) = runaway(&store);
        let next = store.start(&["run", "k", "--", "sh", "-c", CHECK]);
        store.line_has("k", 2);
        run.signal(Signal::KILL);
        assert_eq!(next.end().code, 0);
        assert!(!store.log().contains("overlap"), "{}", store.log());
        assert!(!pids.iter().any(|pid| is_alive(*pid)));
        fs::remove_file(store.path("log")).unwrap();
    }
}

#[test]
fn killing_tenure_and_its_keeper_at_once_frees_no_lock_while_the_command_works() {
    let store = Store::new();
    let run = store.start(&["run", "k", "--", "sh", "-c", "echo leader $$ >>$LOG; exec sleep 600"]);
    store.log_has("leader");
    let leader = leader(&store);
    let keeper = keeper(leader);
    // `tenure` is stopped, so that neither process notices the other's end. The keeper is killed
    // first: if it were stopped, the kernel would continue it as an orphaned process group.
    run.signal(Signal::STOP);
    eventually("all of it stands still", || stands_still(run.pid()));
    kill_process(keeper, Signal::KILL).unwrap();
    run.signal(Signal::KILL);
    eventually("the end of both", || !is_alive(run.pid()) && parent(leader) == 1);
    assert!(is_alive(leader));
    assert_eq!(store.end(&["run", "-n", "k", "--", "true"]).code, 75);
    let next = store.start(&["run", "k", "--", "true"]);
    store.line_has("k", 2);
    kill_process(Pid::from_raw(leader).unwrap(), Signal::KILL).unwrap();
    assert_eq!(next.end().code, 0);
}

#[test]
fn a_break_also_ends_processes_that_left_the_group() {
    begins_after_all_are_gone(&Store::new(), RUNAWAY, 5);
}

#[test]
fn processes_that_a_command_leaves_behind_run_on() {
    let store = Store::new();
    let script = "setsid sleep 600 & echo pid $! >>$LOG; sleep 600 & echo pid $! >>$LOG";
    store.output(&["run", "k", "--", "sh", "-c", &format!("({script}) >/dev/null 2>&1")]);
    let left = pids(&store.log());
    store.output(&["run", "k", "--no-wait", "--", "true"]);
    for pid in left {
        assert!(is_alive(pid));
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
}

/// A holder, and a waiter with its spare keeper.
fn holder_and_waiter(store: &Store, wait: &[&str]) -> (Running, Running, Pid) {
    let hold = store.start(&["run", "k", "--", "sh", "-c", "echo pid $$ >>$LOG; exec sleep 600"]);
    eventually("a holder", || pids(&store.log()).len() == 1);
    let waiter = [&["run"], wait, &["k", "--", "sh", "-c", "echo served >>$LOG"]].concat();
    let waiter = store.start(&waiter);
    store.line_has("k", 2);
    let keepers = children(waiter.pid());
    assert_eq!(keepers.len(), 1, "its keeper");
    (hold, waiter, Pid::from_raw(keepers[0]).unwrap())
}

#[test]
fn a_waiters_keeper_ends_with_it() {
    let store = Store::new();
    let (hold, waiter, keeper) = holder_and_waiter(&store, &[]);
    waiter.signal(Signal::KILL);
    eventually("its end", || !is_alive(keeper.as_raw_nonzero().get()));

    // A stopped keeper does not hold its `tenure` up.
    let (store_b, wait) = (Store::new(), ["--wait", "5s"]);
    let (hold_b, waiter, keeper) = holder_and_waiter(&store_b, &wait);
    kill_process(keeper, Signal::STOP).unwrap();
    let end = waiter.end();
    assert_eq!(end.code, 75, "{}", end.err);
    assert!(!is_alive(keeper.as_raw_nonzero().get()));
    for hold in [hold, hold_b] {
        hold.signal(Signal::TERM);
        hold.end();
    }
}

#[test]
fn a_waiter_whose_keeper_was_killed_runs_its_command_with_another() {
    let store = Store::new();
    let (hold, waiter, keeper) = holder_and_waiter(&store, &[]);
    kill_process(keeper, Signal::KILL).unwrap();
    eventually("its end", || !is_alive(keeper.as_raw_nonzero().get()));
    hold.signal(Signal::TERM);
    hold.end();
    let end = waiter.end();
    assert_eq!((end.code, end.err.as_str()), (0, ""));
    assert!(store.log().contains("served"));
}

/// Checks the keeper's name in `ps`, and signals it: it must ignore these signals.
fn check(keeper: Pid) {
    let read = |file: &str| fs::read_to_string(format!("/proc/{keeper}/{file}")).unwrap();
    let names = (read("comm"), read("cmdline"));
    assert_eq!((names.0.as_str(), names.1.as_str()), ("lock-keeper\n", "lock-keeper\0--keep\0"));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2]
    {
        kill_process(keeper, signal).unwrap();
    }
}

#[test]
fn a_keeper_that_was_stopped_continues_when_it_gets_its_command() {
    let store = Store::new();
    let (hold, waiter, keeper) = holder_and_waiter(&store, &[]);
    kill_process(keeper, Signal::STOP).unwrap();
    hold.signal(Signal::TERM);
    hold.end();
    assert_eq!(waiter.end().code, 0);
    assert!(store.log().contains("served"));
}

/// Starts a `tenure run` whose keepers begin their task two seconds after they received it. Returns
/// also the first keeper, which has received its task. `None` if there is no strace.
fn with_a_slow_keeper(store: &Store) -> Option<(Running, Pid, Pid)> {
    if !have(&[Tool::program("strace", "strace")]) {
        return None;
    }
    let slow = "inject=recvmsg:delay_exit=2000000";
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null", "-e", "trace=recvmsg", "-e", slow]);
    strace.args([env!("CARGO_BIN_EXE_tenure"), "run", "k", "--", "sh", "-c", "echo ran >>$LOG"]);
    store.dress(&mut strace);
    let strace = Running::of(&mut strace);
    eventually("a holder", || store.line("k").iter().any(|ticket| ticket.contains("holding")));
    let tenure = children(strace.pid())[0];
    let keeper = children(tenure)[0];
    Some((strace, Pid::from_raw(tenure).unwrap(), Pid::from_raw(keeper).unwrap()))
}

/// The messages of `tenure`, without those of strace.
fn messages(end: &End) -> String {
    end.err.lines().filter(|line| !line.starts_with("strace: ")).collect()
}

#[test]
fn a_keeper_that_dies_before_it_has_started_the_command_has_a_successor_that_does() {
    let store = Store::new();
    let Some((run, _tenure, keeper)) = with_a_slow_keeper(&store) else { return };
    kill_process(keeper, Signal::KILL).unwrap();
    let end = run.end();
    assert_eq!((end.code, messages(&end).as_str()), (0, ""));
    assert_eq!(store.log(), "ran\n");
}

#[test]
fn a_signal_before_the_command_has_begun_ends_the_run() {
    let store = Store::new();
    let Some((run, tenure, keeper)) = with_a_slow_keeper(&store) else { return };
    // TERM is pending when `tenure` notices the keeper's end.
    kill_process(tenure, Signal::STOP).unwrap();
    kill_process(tenure, Signal::TERM).unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    kill_process(tenure, Signal::CONT).unwrap();
    let end = run.end();
    assert_eq!((end.code, messages(&end).as_str()), (1015, ""));
    assert_eq!(store.line("k").len(), 0);
    assert!(!store.path("log").exists());
}

#[test]
fn a_command_runs_where_few_files_may_be_open() {
    let store = Store::new();
    let mut sh = Command::new("sh");
    sh.args(["-c", "ulimit -n 40; exec \"$0\" run k -- echo ran", env!("CARGO_BIN_EXE_tenure")]);
    store.dress(&mut sh);
    let end = end(&mut sh);
    assert_eq!((end.code, end.out.as_str(), end.err.as_str()), (0, "ran\n", ""));
}

#[test]
fn a_keeper_ignores_signals_and_has_its_own_name() {
    let store = Store::new();
    let run = store.start(&["run", "k", "--", "sh", "-c", "echo pid $$ >>$LOG; cat; exit 7"]);
    eventually("a process", || pids(&store.log()).len() == 1);
    eventually("its end", || !is_alive(run.pid()));
    assert_eq!(run.end().code, 7);

    let run = store.start(&["run", "k", "--", "sh", "-c", "echo pid $$ >>$LOG; exec sleep 600"]);
    eventually("a process", || pids(&store.log()).len() == 2);
    let leader = pids(&store.log())[1];
    check(keeper(leader));
    let keeper = kill_keeper(&run, leader);
    check(keeper);
    run.signal(Signal::KILL);
    eventually("their end", || !is_alive(leader));
    eventually("its own", || !is_alive(keeper.as_raw_nonzero().get()));
    drop(run);
    assert_eq!(store.output(&["run", "k", "--no-wait", "--", "echo", "free"]), "free\n");
}

#[test]
fn a_keeper_that_dies_has_a_successor() {
    let store = Store::new();
    let (run, pids) = runaway(&store);
    kill_keeper(&run, leader(&store));
    assert_eq!(parent(leader(&store)), run.pid());
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    let next = store.start(&["run", "k", "--", "sh", "-c", CHECK]);
    store.line_has("k", 2);
    run.signal(Signal::KILL);
    assert_eq!(next.end().code, 0);
    assert!(!store.log().contains("overlap"), "{}", store.log());
}

#[test]
fn a_command_whose_keeper_died_ends_as_any_other() {
    let store = Store::new();
    for (signal, code) in [(None, 7), (Some(Signal::TERM), 1015)] {
        let script = "echo pid $$ >>$LOG; while [ ! -e $LOG.end ]; do sleep 0.02; done; exit 7";
        let run = store.start(&["run", "k", "--", "sh", "-c", script]);
        eventually("a process", || pids(&store.log()).len() == 1);
        let leader = pids(&store.log())[0];
        kill_keeper(&run, leader);
        match signal {
            None => fs::write(store.path("log.end"), "").unwrap(),
            Some(signal) => run.signal(signal),
        }
        let end = run.end();
        assert_eq!((end.code, end.err.as_str()), (code, ""));
        assert_eq!(store.line("k").len(), 0);
        fs::remove_file(store.path("log")).unwrap();
        let _ = fs::remove_file(store.path("log.end"));
    }
}

#[test]
fn a_break_ends_a_command_whose_keeper_died() {
    let store = Store::new();
    let (run, pids) = runaway(&store);
    kill_keeper(&run, leader(&store));
    store.output(&["break", "k"]);
    assert_eq!(run.end().code, 79);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

/// It has left the group of the command, and its environment does not name the lock.
#[test]
fn a_process_that_only_its_parent_shows_ends_with_a_command_whose_keeper_died() {
    let store = Store::new();
    let daemon = "echo pid $$ >>$LOG; exec sleep 600";
    let script = format!("env -i LOG=$LOG setsid sh -c '{daemon}' & echo pid $$ >>$LOG; wait");
    let run = store.start(&["run", "k", "--", "sh", "-c", &script]);
    eventually("two processes", || pids(&store.log()).len() == 2);
    let pids = pids(&store.log());
    let is_shell = |pid: &&i32| !pids.contains(&parent(**pid));
    kill_keeper(&run, *pids.iter().find(is_shell).unwrap());
    store.output(&["break", "k"]);
    assert_eq!(run.end().code, 79);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

/// A process of another user keeps the lock as long as it runs, and is named.
#[test]
fn a_process_that_may_not_be_killed_keeps_the_lock() {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can make a program of another user");
        return;
    }
    let store = Store::unmade();
    let own = store.path("setpriv");
    fs::copy("/usr/bin/setpriv", &own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o4755)).unwrap();
    chown(store.path(""), Some(OTHER_USER), None).unwrap();
    let script = "echo pid $$ >>$LOG; \
        \"$0\" --reuid=0 --clear-groups sh -c 'echo pid $$ >>$LOG; exec sleep 600'";
    let words = ["run", "k", "--", "sh", "-c", script];
    let mut command = as_other_user(&store, &words);
    let said = File::options().create(true).append(true).open(store.path("said")).unwrap();
    let run = Running::of(command.arg(&own).stderr(said));
    eventually("two processes", || pids(&store.log()).len() == 2);
    let pids = pids(&store.log());
    run.signal(Signal::KILL);
    eventually("the end of one", || !is_alive(pids[0]));
    let sentence = format!(
        "tenure: `k` stays locked until process {} (sleep) of user 0 has ended: it may not be killed\n",
        pids[1]
    );
    eventually("its name", || fs::read_to_string(store.path("said")).unwrap().ends_with(&sentence));
    assert_eq!(end(&mut as_other_user(&store, &["run", "k", "--no-wait", "--", "true"])).code, 75);
    kill_process(Pid::from_raw(pids[1]).unwrap(), Signal::KILL).unwrap();
    assert_eq!(end(&mut as_other_user(&store, &["run", "k", "--", "echo", "free"])).out, "free\n");
}

fn as_other_user(store: &Store, words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args([
        &format!("--reuid={OTHER_USER}"),
        "--clear-groups",
        env!("CARGO_BIN_EXE_tenure"),
    ]);
    store.dress(command.args(words));
    command
}

#[test]
fn a_keeper_of_a_lease_wakes_by_a_clock_that_goes_on_in_a_suspend() {
    let Some((_server, store)) = redis(Setup::new()) else { return };
    let run = store.start(&["run", "k", "--", "sh", "-c", "echo pid $$ >>$LOG; exec sleep 600"]);
    eventually("a process", || pids(&store.log()).len() == 1);
    let keeper = keeper(pids(&store.log())[0]);
    // CLOCK_BOOTTIME, by its number; and the alarm is set.
    let is_set =
        |timer: String| timer.contains("clockid: 7\n") && !timer.contains("it_value: (0, 0)");
    eventually("an alarm", || {
        let files = fs::read_dir(format!("/proc/{keeper}/fdinfo")).unwrap().flatten();
        files.filter_map(|file| fs::read_to_string(file.path()).ok()).any(is_set)
    });
    drop(run);
}

/// The lock must not be released while the keeper has yet to kill the command.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_can_watch_no_longer_leaves_its_lock_to_the_keeper() {
    let store = Store::new();
    // The kernel refuses to wait for two files where one may be open. Another run adopts the
    // keeper, which is stopped meanwhile: the kernel continues a stopped orphan.
    let script = r#"
        "$0" run k -- sh -c 'echo $PPID >$LOG; exec sleep 60 >/dev/null 2>&1' &
        until [ -s "$LOG" ]; do sleep 0.01; done
        keeper=$(cat "$LOG")
        kill -STOP $keeper
        prlimit --pid $! --nofile=1:
        kill -WINCH $!
        wait $!
        echo $?
        "$0" --quiet run --no-wait k -- true
        echo $?
        kill -CONT $keeper
        "$0" run --wait 60s k -- true
        echo $?"#;
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let end = store.end(&["run", "around", "--", "sh", "-c", script, tenure]);
    assert_eq!((end.code, end.out.as_str()), (0, "77\n75\n0\n"), "{end:?}");
    assert!(end.err.contains("can no longer be watched, and is killed"), "{end:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_can_have_no_other_keeper_is_killed() {
    let store = Store::new();
    let script = "trap 'echo heard >>$LOG' WINCH; echo pid $$ >>$LOG; while :; do sleep 0.01; done";
    let run = store.start(&["run", "k", "--", "sh", "-c", script]);
    store.log_has("pid");
    let leader = pids(&store.log())[0];
    // A signal that is passed on shows that `tenure` knows its command.
    run.signal(Signal::WINCH);
    store.log_has("heard");
    // A new keeper needs more files.
    let few = Rlimit { current: Some(6), ..getrlimit(Resource::Nofile) };
    prlimit(Pid::from_raw(run.pid()), Resource::Nofile, few).unwrap();
    kill_process(keeper(leader), Signal::KILL).unwrap();
    eventually("its end", || !is_alive(leader));
    let end = run.end();
    assert!(end.code == 77 && end.err.contains("is killed"), "{end:?}");
    store.output(&["run", "--wait", "60s", "k", "--", "true"]);
}
