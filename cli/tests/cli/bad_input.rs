//! Bad input: one clear sentence, the right exit code, and the line is left clean.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use crate::kit::{End, Store, end, field, write};

/// It fails with this code and a sentence that has this in it; and nobody is left in the line.
fn fails(words: &[&str], code: i32, with: &str) {
    let store = Store::new();
    is_refused(&store.end(words), code, with);
    assert_eq!(store.end(&["keys"]).out, "", "{words:?}");
}

pub(crate) fn is_refused(end: &End, code: i32, with: &str) {
    assert_eq!(end.code, code, "{end:?}");
    assert_eq!(end.out, "", "{end:?}");
    assert!(end.err.starts_with("tenure: ") && end.err.contains(with), "{end:?}");
    assert_eq!(end.err.trim_end().lines().count(), 1, "{end:?}");
}

#[test]
fn no_command_shows_what_there_is() {
    let end = Store::new().end(&[]);
    assert_eq!((end.code, end.out.as_str()), (64, ""));
    assert!(end.err.contains("Usage: tenure") && end.err.contains("run"), "{}", end.err);
}

/// All that is said of words that make no sense, to be read from the top.
const SENTENCES: &[(&[&str], &str)] = &[
    (&["frobnicate"], "`frobnicate` is no word of `tenure`: `tenure -h` shows what there is"),
    (
        &["lien"],
        "`lien` is no word of `tenure` (did you mean `line`?): `tenure -h` shows what there is",
    ),
    (
        &["help", "frobnicate"],
        "`frobnicate` is no word of `tenure help`: `tenure -h` shows what there is",
    ),
    (&["--json"], "a command is missing: `tenure -h` shows what there is"),
    (&["run"], "`KEY` and `CMD` are missing: `tenure run -h` shows how it is written"),
    (&["run", "k"], "`CMD` is missing: `tenure run -h` shows how it is written"),
    (&["run", "k", "--"], "`CMD` is missing: `tenure run -h` shows how it is written"),
    (&["run", "k", "true"], "the command to run stands behind `--`, as in: tenure run KEY -- CMD"),
    (
        &["run", "--frob", "k", "--", "true"],
        "`--frob` is no option of `tenure run`: `tenure run -h` shows what there is",
    ),
    (
        &["run", "--wiat", "1s", "k", "--", "true"],
        "`--wiat` is no option of `tenure run` (did you mean `--wait`?): `tenure run -h` shows what there is",
    ),
    (
        &["--jsno", "keys"],
        "`--jsno` is no option of `tenure keys` (did you mean `--json`?): `tenure keys -h` shows what there is",
    ),
    (
        &["--no-wait", "run", "k", "--", "true"],
        "`--no-wait` is an option of `tenure run`: write it behind that",
    ),
    (
        &["run", "-z", "k", "--", "true"],
        "`-z` is no option of `tenure run`: `tenure run -h` shows what there is",
    ),
    (
        &["run", "--wait", "1s", "--no-wait", "k", "--", "true"],
        "`--wait` cannot be used with `--no-wait`",
    ),
    (
        &["run", "--shared", "--exclusive", "k", "--", "true"],
        "`--shared` cannot be used with `--exclusive`",
    ),
    (
        &["run", "--shared", "--permits", "1/2", "k", "--", "true"],
        "`--shared` cannot be used with `--permits`",
    ),
    (&["run", "--on-lost", "x", "k", "--", "true"], "`--on-lost` takes `stop` or `warn`"),
    (&["run", "-E", "300", "k", "--", "true"], "`--busy-code` takes a number from 0 to 255"),
    (&["run", "-E", "x", "k", "--", "true"], "`--busy-code`: `x` is no number that it takes"),
    (
        &["run", "k", "--wait", "--", "true"],
        "`--wait` lacks its value: `tenure run -h` shows what it takes",
    ),
    (
        &["break", "k", "--force-after"],
        "`--force-after` lacks its value: `tenure break -h` shows what it takes",
    ),
    (
        &["run", "--wait", "-1s", "k", "--", "true"],
        "`-1` is no option of `tenure run`, and no number or time is below 0",
    ),
    (
        &["run", "--wait", "soon", "k", "--", "true"],
        "`--wait`: `soon` is no duration: write it like 30s, 5m, 1h30m, 250ms or 1d",
    ),
    (
        &["run", "--permits", "6/5", "k", "--", "true"],
        "`--permits`: 6 of 5 cannot be taken: ask for 1 to 5",
    ),
    (
        &["run", "--permits", "5", "k", "--", "true"],
        "`--permits`: it is written K/N, as in 2/5 for two of five",
    ),
    (&["count", "k"], "`--per` is missing: `tenure count -h` shows how it is written"),
    (&["count", "k", "--per", "0s"], "`--per`: a window is longer than 0s and at most 366d"),
    (&["count", "k", "--per", "999d"], "`--per`: a window is longer than 0s and at most 366d"),
    (
        &["count", "k", "--per", "1h", "--limit", "0"],
        "`--limit` 0 never lets a count of 1 through: raise it, or write --by 0",
    ),
    (&["next", "k", "--count", "0"], "`--count` takes a number from 1 to 1000000"),
    (
        &["next", "k", "--count", "1000000000000000000"],
        "`--count` takes a number from 1 to 1000000",
    ),
    (
        &["next", "k", "--count", "99999999999999999999"],
        "`--count`: `99999999999999999999` is too large",
    ),
    (&["--on", "file:x", "--on", "file:y", "keys"], "`--on` is given twice: leave one out"),
    (
        &["run", "-x", "--", "true"],
        "`KEY` is missing: a key that begins with `-` stands behind `--`, as in: tenure run -- -x -- CMD",
    ),
    (
        &["run", "--", "-x", "true"],
        "`KEY` is missing: a key that begins with `-` stands behind `--`, as in: tenure run -- -x -- CMD",
    ),
    (
        &["run", "--ttl", "2s", "--", "echo", "hi"],
        "`KEY` is missing: all that stands behind `--` is the command, as in: tenure run KEY -- echo",
    ),
    (
        &["lead", "-key", "--", "true"],
        "`-k` is no option of `tenure lead`: `tenure lead -h` shows what there is; a key that begins with `-` stands \
         behind `--`, as in: tenure lead -- -key -- CMD",
    ),
    (
        &["line", "-x"],
        "`-x` is no option of `tenure line`: `tenure line -h` shows what there is; a key that begins with `-` stands \
         behind `--`, as in: tenure line -- -x",
    ),
    (
        &["break", "k", "--ticket", "12x"],
        "`--ticket`: an id is up to 32 hexadecimal digits: `tenure line KEY` shows it",
    ),
    (
        &["ls"],
        "`ls` is no command of `tenure`: `tenure keys` lists the keys that are held or waited for",
    ),
    (
        &["lock", "k"],
        "`lock` is no command of `tenure`: `tenure run KEY -- CMD` runs a command under a lock",
    ),
    (
        &["unlock", "k"],
        "`unlock` is no command of `tenure`: a lock is released when its command ends; `tenure break KEY` ends another's",
    ),
    (
        &["status"],
        "`status` is no command of `tenure`: `tenure line KEY` shows who holds and who waits, and `tenure keys` all keys",
    ),
    (
        &["run", "--json", "k", "--", "true"],
        "`tenure run` has no answer to write as JSON: leave out `--json`",
    ),
    (&["man", "--json"], "`tenure man` has no answer to write as JSON: leave out `--json`"),
    (
        &["--on", "localhost:6379", "keys"],
        "`localhost:6379` names a server and no store: did you mean `redis://localhost:6379`?",
    ),
    (&["break", "k", "--ticket", "12", "--holder"], "`--ticket` cannot be used with `--holder`"),
    (&["bench", "x"], "`CASE` takes `free`, `parallel`, `handover` or `crowd`"),
    (&["completions", "tcsh"], "`SHELL` takes `bash`, `elvish`, `fish`, `powershell` or `zsh`"),
];

#[test]
fn words_that_make_no_sense() {
    let store = Store::unmade();
    for (words, sentence) in SENTENCES {
        let end = store.end(words);
        assert_eq!(end.err, format!("tenure: {sentence}\n"), "{words:?}");
        assert_eq!((end.code, end.out.as_str()), (64, ""), "{words:?}");
    }
    assert!(!store.path("store").exists(), "nothing was opened for it");
}

#[test]
fn keys_that_are_none() {
    let long = "x".repeat(1025);
    for key in ["", &long] {
        let with = if key.is_empty() { "must not be empty" } else { "1025 bytes is too long" };
        for words in [
            &["run", key, "--", "true"][..],
            &["lead", key, "--", "true"],
            &["line", key],
            &["break", key],
            &["next", key],
            &["count", key, "--per", "1s"],
        ] {
            fails(words, 64, with);
        }
    }
}

#[test]
fn a_key_that_begins_with_a_dash_stands_behind_two() {
    let store = Store::new();
    for verb in ["run", "lead"] {
        let command = ["sh", "-c", "echo \"$TENURE_KEY $*\"", "sh", "--", "-y"];
        for (key, options) in [("-x", &["--ttl", "9s"][..]), ("--", &[]), ("plain", &[])] {
            let words = [&[verb][..], options, &["--", key, "--"], &command].concat();
            assert_eq!(store.says(&words), format!("{key} -- -y\n"), "{words:?}");
        }
    }
    assert_eq!(store.says(&["next", "--", "-x"]), "1\n");
}

#[test]
fn what_is_not_utf8() {
    let store = Store::new();
    let bytes = OsStr::from_bytes(b"k\xff");
    is_refused(&end(store.tenure(&["line"]).arg(bytes)), 64, "not UTF-8");
    is_refused(&end(store.tenure(&["run"]).arg(bytes).args(["--", "true"])), 64, "not UTF-8");
    is_refused(&end(store.tenure(&["keys"]).env("TENURE_ON", bytes)), 64, "not UTF-8");
    is_refused(&end(store.tenure(&["run", "--"]).arg(bytes)), 64, "`KEY` is missing");
    // The words of the command may be any bytes.
    let mut run = store.tenure(&["run", "k", "--", "sh", "-c", "printf %s \"$1\" | wc -c", "sh"]);
    let end = end(run.arg(bytes));
    assert_eq!((end.code, end.out.trim(), end.err.as_str()), (0, "2", ""));
}

#[test]
fn a_bare_number_is_one_of_seconds() {
    let store = Store::new();
    let work = ["--ttl", "30", "--kill-after", "5", "k", "--", "true"];
    store.says(&[&["run", "-w", "5"], &work[..]].concat());
    store.says(&[&["lead"], &work[..]].concat());
    let count = store.says(&["count", "k", "--per", "36000", "--json"]);
    assert!(field(&count, "resets_in_ms").parse::<u64>().unwrap() > 36_000, "{count}");
    // 366 days, and a second more.
    store.says(&["count", "other", "--per", "31622400"]);
    fails(&["count", "k", "--per", "31622401"], 64, "at most 366d");
    // A URL takes at most an hour.
    let look = |timeout: &str| {
        store.end(&["--on", &format!("redis://127.0.0.1:1?timeout={timeout}"), "keys"])
    };
    is_refused(&look("5"), 69, "nobody listens at 127.0.0.1:1");
    is_refused(&look("3601"), 64, "`timeout` takes a time from 1ms to 1h");
}

#[test]
fn durations_that_are_none() {
    for (ttl, with) in [("0s", "too short"), ("100ms", "ttl"), ("soon", "write it like 30s")] {
        fails(&["run", "--ttl", ttl, "k", "--", "true"], 64, with);
        fails(&["lead", "--ttl", ttl, "k", "--", "true"], 64, with);
    }
    fails(&["run", "--wait", "-1s", "k", "--", "true"], 64, "-1");
    fails(&["run", "--kill-after", "x", "k", "--", "true"], 64, "write it like 30s");
}

#[test]
fn permits_that_are_none() {
    for (permits, with) in [
        ("6/5", "6 of 5 cannot be taken"),
        ("0/0", "there can be 1 to 1000000 permits"),
        ("0/5", "0 of 5"),
        ("5", "K/N"),
        ("a/b", "K/N"),
        ("1/2000000", "there can be 1 to 1000000 permits"),
        ("1/99999999999", "K/N"),
    ] {
        fails(&["run", "--permits", permits, "k", "--", "true"], 64, with);
    }
}

#[test]
fn commands_that_do_not_run() {
    let store = Store::new();
    let (plain, script) = (store.path("plain"), store.path("script"));
    write(&plain, "no program\n", 0o644);
    write(&script, "#!/nowhere/interpreter\n", 0o755);
    for verb in ["run", "lead"] {
        let words = [verb, "k", "--", "no-such-command"];
        is_refused(&store.end(&words), 127, "there is no command `no-such-command`");
        for path in [&plain, &store.path(".")] {
            let words = [verb, "k", "--", path.to_str().unwrap()];
            is_refused(&store.end(&words), 126, "cannot be executed");
        }
        // This one shows only when it is executed.
        is_refused(&store.end(&[verb, "k", "--", script.to_str().unwrap()]), 127, "script");
        is_refused(&store.end(&[verb, "k", "--", ""]), 127, "there is no command ``");
    }
    assert_eq!(store.end(&["keys"]).out, "");
}

#[test]
fn an_output_that_is_closed_early_ends_quietly() {
    let store = Store::new();
    let mut next = store.tenure(&["next", "k", "--count", "1000000"]).spawn().unwrap();
    let mut head = [0; 2];
    next.stdout.take().unwrap().read_exact(&mut head).unwrap();
    assert_eq!(&head, b"1\n");
    let output = next.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(141), &b""[..]));
}

#[test]
fn no_number_is_taken_that_nobody_would_read() {
    let store = Store::new();
    let mut command = std::process::Command::new("sh");
    let words = ["-c", "\"$0\" next k >&-", env!("CARGO_BIN_EXE_tenure")];
    store.dress(command.args(words));
    let lost = end(&mut command);
    assert_eq!(lost.code, 74);
    assert_eq!(lost.err, "tenure: standard output is closed: a number would be lost\n");
    assert_eq!(store.says(&["next", "k"]), "1\n");
    let mut command = std::process::Command::new("sh");
    let words = ["-c", "\"$0\" next k >/dev/null", env!("CARGO_BIN_EXE_tenure")];
    store.dress(command.args(words));
    assert_eq!(end(&mut command).code, 0, "who throws it away may");
}

#[test]
fn an_output_that_is_full_is_told() {
    let store = Store::new();
    for words in [&["next", "k"][..], &["--help"], &["man"]] {
        let mut command = store.tenure(words);
        let full = File::options().write(true).open("/dev/full").unwrap();
        is_refused(&end(command.stdout(Stdio::from(full))), 74, "cannot write the answer");
    }
}

#[test]
fn an_open_descriptor_cannot_be_locked() {
    let end = Store::new().end(&["run", "9"]);
    assert_eq!(end.code, 64);
    assert!(end.err.contains("put the commands behind `--`"), "{}", end.err);
}

#[test]
fn who_gets_no_thread_says_so() {
    let store = Store::new();
    let redis = &mut store.tenure(&["run", "k", "--", "true"]);
    is_refused(&end(without_threads(redis).env("TENURE_ON", "redis://127.0.0.1:1")), 77, NO_ROOM);
    let _holder = store.start(&["run", "k", "--", "sleep", "60"]);
    store.line_has("k", 1);
    for wait in [&["--wait", "50s"][..], &[]] {
        let words = [&["run"], wait, &["k", "--", "true"]].concat();
        is_refused(&end(without_threads(&mut store.tenure(&words))), 77, NO_ROOM);
        // Nobody needs one to get a lock of files that is free. A busy machine may not be done with the command soon.
        let words = [&["run"], wait, &["other", "--", "true"]].concat();
        let free = end(without_threads(&mut store.tenure(&words)));
        assert!(
            free.code == 0 || free.err.contains("loss of the lock could not be told"),
            "{free:?}"
        );
    }
}

/// Nobody could tell it of the loss of its lock.
#[test]
fn a_longer_command_is_asked_to_end_where_no_thread_can_be_started() {
    let store = Store::new();
    // It is deaf to that, and so has the time that it is given.
    let script =
        r#"trap '' TERM; exec "$0" run --kill-after 60s k -- sh -c 'sleep 0.1; echo done'"#;
    let mut asked = Command::new("sh");
    store.dress(asked.args(["-c", script, env!("CARGO_BIN_EXE_tenure")]));
    let asked = end(without_threads(&mut asked));
    assert_eq!((asked.code, asked.out.as_str()), (77, "done\n"), "{asked:?}");
    assert!(asked.err.contains(NO_ROOM) && asked.err.contains("is stopped"), "{asked:?}");
    let spared = ["run", "--on-lost", "warn", "k", "--", "sh", "-c", "sleep 0.1; echo done"];
    let spared = end(without_threads(&mut store.tenure(&spared)));
    assert_eq!((spared.code, spared.out.as_str()), (0, "done\n"), "{spared:?}");
    assert!(spared.err.contains(NO_ROOM) && spared.err.contains("works on"), "{spared:?}");
}

const NO_ROOM: &str = "no room for a thread";

/// The system has no room for threads with such a stack.
fn without_threads(command: &mut Command) -> &mut Command {
    command.env("RUST_MIN_STACK", (1_u64 << 62).to_string())
}
