//! The keeper of a command: nobody has the lock before all of the command is dead, however its `tenure` died.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Command;

use crate::kit::{
    End, Running, Store, children, end, eventually, is_alive, parent, redis, stands_still,
};
use crate::run::{begins_when_nobody_is_left, pids};
use rustix::process::{Pid, Signal, geteuid, kill_process};
#[cfg(target_os = "linux")]
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use tenure_servers::redis::Setup;
use tenure_servers::{Tool, have};

/// A command of five processes; two left its process group, one of them without a parent, and all are deaf to TERM.
pub(crate) const RUNAWAY: &str = "trap '' TERM; echo leader $$ >>$LOG; \
    work() { while :; do sleep 0.02; done; }; \
    setsid sh -c 'echo pid $$ >>$LOG; while :; do sleep 0.02; done' & \
    (setsid sh -c 'echo pid $$ >>$LOG; while :; do sleep 0.02; done' &) ; \
    (work & echo pid $! >>$LOG); work & echo pid $! >>$LOG; echo pid $$ >>$LOG; work";

/// What the next one runs: it tells who of the others still works.
pub(crate) const CHECK: &str = "for pid in $(sed -n 's/^pid //p' $LOG); do \
    case $(cut -d' ' -f3 /proc/$pid/stat 2>/dev/null) in ''|Z|X) ;; *) echo overlap $pid >>$LOG;; esac; \
    done; echo next >>$LOG";

/// Somebody who is not root.
const NOBODY: u32 = 65_534;

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

/// The keeper of the command whose first process this is.
fn keeper(leader: i32) -> Pid {
    Pid::from_raw(parent(leader)).unwrap()
}

/// Waits until a `tenure` has another keeper than this, which keeps the session alive.
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
fn nobody_is_served_before_all_of_a_killed_command_is_dead() {
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
fn who_kills_tenure_and_its_keeper_in_one_go_frees_no_lock_while_the_command_works() {
    let store = Store::new();
    let run = store.start(&["run", "k", "--", "sh", "-c", "echo leader $$ >>$LOG; exec sleep 600"]);
    store.log_has("leader");
    let leader = leader(&store);
    let keeper = keeper(leader);
    // Neither sees the end of the other: `tenure` stands still by then. The keeper must go first, though it could be
    // stopped, too: where the end of `tenure` leaves it without a parent in its session, the system lets it go on.
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
fn a_break_ends_those_who_left_the_group_too() {
    begins_when_nobody_is_left(&Store::new(), RUNAWAY, 5);
}

#[test]
fn what_a_command_leaves_behind_runs_on() {
    let store = Store::new();
    let script = "setsid sleep 600 & echo pid $! >>$LOG; sleep 600 & echo pid $! >>$LOG";
    store.says(&["run", "k", "--", "sh", "-c", &format!("({script}) >/dev/null 2>&1")]);
    let left = pids(&store.log());
    store.says(&["run", "k", "--no-wait", "--", "true"]);
    for pid in left {
        assert!(is_alive(pid));
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
}

/// A holder, and somebody who waits behind it with a keeper that has no task yet.
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

    // One that hears nothing keeps nobody from ending.
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

/// A keeper is deaf, and this is what `ps` finds out about it.
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
fn a_keeper_that_somebody_has_stopped_goes_on_when_it_gets_its_command() {
    let store = Store::new();
    let (hold, waiter, keeper) = holder_and_waiter(&store, &[]);
    kill_process(keeper, Signal::STOP).unwrap();
    hold.signal(Signal::TERM);
    hold.end();
    assert_eq!(waiter.end().code, 0);
    assert!(store.log().contains("served"));
}

/// A `tenure run` whose keepers look at their command only two seconds after they got it, and the first of them, which has
/// got it by now. `None` if there is no strace here.
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

/// What it said itself, and not strace about its own work.
fn said(end: &End) -> String {
    end.err.lines().filter(|line| !line.starts_with("strace: ")).collect()
}

#[test]
fn a_keeper_that_dies_before_it_has_started_the_command_has_a_successor_that_does() {
    let store = Store::new();
    let Some((run, _tenure, keeper)) = with_a_slow_keeper(&store) else { return };
    kill_process(keeper, Signal::KILL).unwrap();
    let end = run.end();
    assert_eq!((end.code, said(&end).as_str()), (0, ""));
    assert_eq!(store.log(), "ran\n");
}

#[test]
fn who_is_asked_to_end_before_the_command_has_begun_ends_as_asked() {
    let store = Store::new();
    let Some((run, tenure, keeper)) = with_a_slow_keeper(&store) else { return };
    // So that it has heard that when it finds its keeper dead.
    kill_process(tenure, Signal::STOP).unwrap();
    kill_process(tenure, Signal::TERM).unwrap();
    kill_process(keeper, Signal::KILL).unwrap();
    kill_process(tenure, Signal::CONT).unwrap();
    let end = run.end();
    assert_eq!((end.code, said(&end).as_str()), (1015, ""));
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
fn a_keeper_hears_no_signal_and_is_known_by_its_name() {
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
    assert_eq!(store.says(&["run", "k", "--no-wait", "--", "echo", "free"]), "free\n");
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
    store.says(&["break", "k"]);
    assert_eq!(run.end().code, 79);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

/// A process of another user keeps the lock for as long as it works, and is named.
#[test]
fn who_may_not_be_killed_keeps_the_lock() {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can make a program of another user");
        return;
    }
    let store = Store::unmade();
    let own = store.path("setpriv");
    fs::copy("/usr/bin/setpriv", &own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o4755)).unwrap();
    chown(store.path(""), Some(NOBODY), None).unwrap();
    let script = "echo pid $$ >>$LOG; \
        \"$0\" --reuid=0 --clear-groups sh -c 'echo pid $$ >>$LOG; exec sleep 600'";
    let words = ["run", "k", "--", "sh", "-c", script];
    let mut command = as_nobody(&store, &words);
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
    assert_eq!(end(&mut as_nobody(&store, &["run", "k", "--no-wait", "--", "true"])).code, 75);
    kill_process(Pid::from_raw(pids[1]).unwrap(), Signal::KILL).unwrap();
    assert_eq!(end(&mut as_nobody(&store, &["run", "k", "--", "echo", "free"])).out, "free\n");
}

fn as_nobody(store: &Store, words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={NOBODY}"), "--clear-groups", env!("CARGO_BIN_EXE_tenure")]);
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

/// Before, it was given back on the way out, while the keeper was still about to kill the command.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_can_watch_no_longer_leaves_its_lock_to_the_keeper() {
    let store = Store::new();
    // The kernel refuses to wait for two files where one may be open. Another run adopts the keeper, which is stopped for a
    // while: the kernel wakes who is stopped and an orphan.
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
    // What is passed on shows that it knows its command.
    run.signal(Signal::WINCH);
    store.log_has("heard");
    // A keeper needs files of its own.
    let few = Rlimit { current: Some(6), ..getrlimit(Resource::Nofile) };
    prlimit(Pid::from_raw(run.pid()), Resource::Nofile, few).unwrap();
    kill_process(keeper(leader), Signal::KILL).unwrap();
    eventually("its end", || !is_alive(leader));
    let end = run.end();
    assert!(end.code == 77 && end.err.contains("is killed"), "{end:?}");
    store.says(&["run", "--wait", "60s", "k", "--", "true"]);
}
