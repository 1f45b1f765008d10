//! `tenure ps`, `tenure line --check` and short ids: what runs under which lock, at a glance.

use std::os::unix::fs::symlink;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tenure::blocking::block_on;

use crate::kit::{Running, Store, end, eventually, field, fields};
use crate::pty::Pty;

/// The output of a program of the system.
fn said(words: &[&str]) -> String {
    let end = end(Command::new(words[0]).args(&words[1..]));
    assert_eq!(end.code, 0, "{end:?}");
    end.out.trim().to_owned()
}

fn holder(store: &Store, key: &str, options: &[&str]) -> Running {
    let before = store.line(key).len();
    let words = [&["run", key], options, &["--", "sleep", "600.125"]].concat();
    let holder = store.start(&words);
    store.line_has(key, before + 1);
    holder
}

#[test]
fn every_holder_is_shown_with_its_user_and_its_command() {
    let store = Store::new();
    let job = store.path("nightly backup.sh");
    symlink(said(&["sh", "-c", "command -v sleep"]), &job).unwrap();
    let words = ["run", "jobs/1", "--note", "night", "--", job.to_str().unwrap(), "600.125"];
    let first = store.start(&words);
    store.line_has("jobs/1", 1);
    let _waiters = [holder(&store, "jobs/1", &[]), holder(&store, "jobs/1", &[])];
    let shared = [holder(&store, "other", &["-s"]), holder(&store, "other", &["-s"])];

    let (user, host) = (said(&["id", "-un"]), said(&["uname", "-n"]));
    let json = store.output(&["ps", "--json"]);
    let rows: Vec<_> = json.lines().collect();
    assert_eq!(
        rows.iter().map(|row| field(row, "key")).collect::<Vec<_>>(),
        ["jobs/1", "other", "other"]
    );
    assert_eq!(
        fields(rows[0]),
        [
            "key",
            "id",
            "token",
            "state",
            "kind",
            "user",
            "command",
            "host",
            "pid",
            "owner",
            "note",
            "since_ms",
            "expires_in_ms",
            "waiting",
            "leaving",
        ]
    );
    let pid = first.pid();
    for (name, value) in [
        ("id", field(&store.line("jobs/1")[0], "id")),
        ("state", "holding"),
        ("kind", "exclusive"),
        ("user", user.as_str()),
        ("command", "nightly backup.sh"),
        ("host", &host),
        ("pid", &pid.to_string()),
        ("owner", &format!("nightly backup.sh[{pid}] {user}@{host}")),
        ("note", "night"),
        ("expires_in_ms", "null"),
        ("waiting", "2"),
        ("leaving", "false"),
    ] {
        assert_eq!(field(rows[0], name), value, "{name}");
    }
    for (row, holder) in rows[1..].iter().zip(&shared) {
        assert_eq!([field(row, "kind"), field(row, "waiting")], ["shared", "0"]);
        assert_eq!(field(row, "pid"), holder.pid().to_string());
    }

    let table = store.output(&["ps"]);
    let rows: Vec<_> = table.lines().collect();
    let titles = ["ID", "KEY", "USER", "COMMAND", "HOST", "JOINED", "LEFT", "WAITING", "STATE"];
    assert_eq!(rows[0].split_whitespace().collect::<Vec<_>>(), titles);
    assert_eq!(rows.len(), 4, "{table}");
    assert!(rows[1].starts_with(&field(&json, "id")[..8]), "{table}");
    let process = format!("nightly backup.sh[{pid}]  {host}  ");
    assert!(rows[1].contains(&process) && !table.contains("600.125"), "{table}");

    assert_eq!(store.output(&["ps", "oth"]).lines().count(), 3);
    assert_eq!(store.output(&["ps", "none"]), "");
    let (_, shown) = Pty::start(&store.tenure(&["ps", "none"]), 80).end();
    assert!(shown.contains("no key that begins with `none` has a holder"), "{shown}");
}

#[test]
fn a_leader_is_shown_by_its_program() {
    let store = Store::new();
    let words = ["lead", "k", "--", "sh", "-c", "exec sleep 600"];
    let leader = store.start(&words);
    store.line_has("k", 1);
    let json = store.output(&["ps", "--json"]);
    assert_eq!(field(&json, "owner").split(' ').next(), Some(&*format!("sh[{}]", leader.pid())));
}

#[test]
fn an_owner_of_another_program_is_shown_whole() {
    let store = Store::new();
    let locks = block_on(tenure::connect(&store.url())).unwrap();
    let farm = locks.with_owner("worker 7 of the farm").unwrap();
    let library = locks.with_owner("worker[12]@db1").unwrap();
    let _farm = block_on(farm.mutex("a").lock()).unwrap();
    let _library = block_on(library.mutex("b").lock()).unwrap();
    let json = store.output(&["ps", "--json"]);
    let rows: Vec<_> = json.lines().collect();
    let parts = |row: &str| {
        ["owner", "user", "command", "host", "pid"].map(|name| field(row, name).to_owned())
    };
    assert_eq!(parts(rows[0]), ["worker 7 of the farm", "null", "null", "null", "null"]);
    assert_eq!(parts(rows[1]), ["worker[12]@db1", "null", "worker", "db1", "12"]);
    let table = store.output(&["ps"]);
    assert!(table.contains("  worker 7 of the farm  "), "{table}");
    assert!(table.contains("  worker[12]            db1 "), "{table}");
}

#[test]
fn a_holder_that_was_asked_to_leave_is_marked() {
    let store = Store::new();
    let work = "trap '' TERM; echo pid $$ >>$LOG; while :; do sleep 0.02; done";
    let words = ["run", "k", "--on-lost", "warn", "--", "sh", "-c", work];
    let holder = store.start(&words);
    store.log_has("pid");
    assert!(!store.output(&["ps"]).contains("leaving"));
    store.output(&["break", "k"]);
    eventually("a holder that leaves", || {
        let json = store.output(&["ps", "--json"]);
        [field(&json, "state"), field(&json, "leaving")] == ["leaving", "true"]
    });
    assert!(store.output(&["ps"]).contains("leaving"));
    assert_eq!(store.end(&["line", "--check", "k"]).code, 0, "it still holds");
    let pid = crate::run::pids(&store.log())[0];
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(holder.end().code, 79);
}

#[test]
fn a_stopped_holder_of_a_file_store_is_marked() {
    let store = Store::new();
    let holder = holder(&store, "k", &[]);
    holder.signal(Signal::STOP);
    eventually("a stopped holder", || store.output(&["ps"]).contains("  stopped"));
    assert!(store.output(&["top"]).contains("stopped: sleep["));
    let doctor = store.end(&["doctor"]);
    let cure = format!("cure: kill -CONT {}", holder.pid());
    assert!(doctor.code == 1 && doctor.out.contains(&cure), "{doctor:?}");
    holder.signal(Signal::CONT);
    eventually("a holder that runs", || !store.output(&["ps"]).contains("stopped"));
}

#[test]
fn a_check_answers_by_its_exit_code_alone() {
    let store = Store::new();
    let check = |key: &str| {
        let end = store.end(&["line", "--check", key]);
        assert_eq!((end.out.as_str(), end.err.as_str()), ("", ""), "{key}");
        end.code
    };
    store.output(&["run", "k", "--", "true"]);
    assert_eq!(check("k"), 1);
    let holder = holder(&store, "k", &["--permits", "1/3"]);
    assert_eq!((check("k"), check("other")), (0, 1));
    drop(holder);
    eventually("a free key", || check("k") == 1);
    let end = store.end(&["line", "--check", ""]);
    assert_eq!((end.code, end.out.as_str()), (64, ""));
    let end = store.end(&["--on", "redis://127.0.0.1:1", "line", "--check", "k"]);
    assert_eq!((end.code, end.out.as_str()), (69, ""));
}

#[test]
fn an_id_is_shown_at_every_width_and_breaks_its_ticket() {
    let store = Store::new();
    let key = "a key that is wider than most of the terminals here, as it names a whole invoice";
    let holder = holder(&store, key, &["--note", "a long note beside it"]);
    let id = field(&store.line(key)[0], "id").to_owned();
    for columns in [9, 10, 20, 40, 80, 200] {
        for words in [&["ps"][..], &["line", key]] {
            let (code, shown) = Pty::start(&store.tenure(words), columns).end();
            assert!(code == 0 && shown.contains(&id[..8]), "{columns}: {shown}");
            let plain = shown.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
            let is_narrow = plain.lines().all(|line| line.chars().count() <= columns.into());
            assert!(is_narrow, "{columns}: {shown}");
            assert!(columns < 80 || plain.contains("JOINED"), "a long key hides the rest: {shown}");
        }
    }
    let said = store.output(&["break", key, "--ticket", &id[..8].to_uppercase()]);
    assert!(said.contains(&format!("ticket {} is out as soon as", &id[..8])), "{said}");
    assert_eq!(holder.end().code, 79);
}

#[test]
fn many_keys_are_shown_in_their_order() {
    let store = Store::new();
    let locks = block_on(tenure::connect(&store.url())).unwrap();
    let lock = |key: &String| block_on(locks.mutex(key).lock()).unwrap();
    let keys: Vec<_> = (0..40).map(|count| format!("k{count:02}")).collect();
    let _guards: Vec<_> = keys.iter().map(lock).collect();
    let json = store.output(&["ps", "--json"]);
    assert_eq!(json.lines().map(|row| field(row, "key")).collect::<Vec<_>>(), keys);
}
