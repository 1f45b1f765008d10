//! Bad input: one clear message, the right exit code, and no ticket left in the line.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Stdio};

use crate::kit::{End, Store, end, field, write};

/// The command fails with this code and with this text in its message, and leaves the line.
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
fn no_command_shows_the_help() {
    let end = Store::new().end(&[]);
    assert_eq!((end.code, end.out.as_str()), (64, ""));
    assert!(end.err.contains("Usage: tenure") && end.err.contains("run"), "{}", end.err);
}

/// Arguments that the parser refuses, with a part of its message.
const UNPARSED: &[(&[&str], &str)] = &[
    (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
    (&["lien"], "a similar subcommand exists: 'line'"),
    (&["help", "frobnicate"], "unrecognized subcommand 'frobnicate'"),
    (&["--json"], "requires a subcommand"),
    (&["run"], "required arguments were not provided"),
    (&["run", "k"], "required arguments were not provided"),
    (&["run", "9"], "required arguments were not provided"),
    (&["run", "k", "--"], "required arguments were not provided"),
    (&["run", "--frob", "k", "--", "true"], "unexpected argument '--frob' found"),
    (&["run", "--wiat", "1s", "k", "--", "true"], "a similar argument exists: '--wait'"),
    (&["--jsno", "keys"], "a similar argument exists: '--json'"),
    (&["--no-wait", "run", "k", "--", "true"], "unexpected argument '--no-wait' found"),
    (&["run", "-z", "k", "--", "true"], "unexpected argument '-z' found"),
    (&["run", "--wait", "1s", "--no-wait", "k", "--", "true"], "cannot be used with '--no-wait'"),
    (&["run", "--shared", "--exclusive", "k", "--", "true"], "cannot be used with '--exclusive'"),
    (&["run", "--shared", "--permits", "1/2", "k", "--", "true"], "cannot be used with '--permits"),
    (&["run", "--on-lost", "x", "k", "--", "true"], "[possible values: stop, warn]"),
    (&["run", "-E", "300", "k", "--", "true"], "300 is not in 0..=255"),
    (&["run", "-E", "x", "k", "--", "true"], "invalid digit"),
    (&["run", "k", "--wait", "--", "true"], "a value is required for '--wait <TIME>'"),
    (&["break", "k", "--force-after"], "a value is required for '--force-after <TIME>'"),
    (&["run", "--wait", "-1s", "k", "--", "true"], "unexpected argument '-1' found"),
    (&["run", "--wait", "soon", "k", "--", "true"], "write it like 30s, 5m, 1h30m, 250ms or 1d"),
    (&["run", "--permits", "6/5", "k", "--", "true"], "6 of 5 cannot be taken: ask for 1 to 5"),
    (&["run", "--permits", "5", "k", "--", "true"], "K/N, as in 2/5 for two of five"),
    (&["count", "k"], "--per <TIME>"),
    (&["count", "k", "--per", "0s"], "a window is longer than 0s and at most 366d"),
    (&["count", "k", "--per", "999d"], "a window is longer than 0s and at most 366d"),
    (&["next", "k", "--count", "0"], "0 is not in 1..=1000000"),
    (&["next", "k", "--count", "1000000000000000000"], "is not in 1..=1000000"),
    (&["next", "k", "--count", "99999999999999999999"], "number too large"),
    (&["--on", "file:x", "--on", "file:y", "keys"], "cannot be used multiple times"),
    (&["run", "-x", "--", "true"], "required arguments were not provided"),
    (&["run", "--", "-x", "true"], "required arguments were not provided"),
    (&["run", "--ttl", "2s", "--", "echo", "hi"], "<KEY>"),
    (&["lead", "-key", "--", "true"], "unexpected argument '-k' found"),
    (&["line", "-x"], "to pass '-x' as a value, use '-- -x'"),
    (&["break", "k", "--ticket", "12x"], "an id is 8 to 32 hexadecimal digits"),
    (&["break", "k", "--ticket", "0123abc"], "`tenure line KEY` shows the first 8"),
    (&["break", "k", "--ticket", "0123abcd", "--holder"], "cannot be used with '--holder'"),
    (&["bench", "x"], "[possible values: free, parallel, handover, crowd]"),
    (&["completions", "tcsh"], "[possible values: bash, elvish, fish, powershell, zsh]"),
];

/// Arguments that the parser accepts and the command refuses, with the whole message.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["count", "k", "--per", "1h", "--limit", "0"],
        "`--limit` 0 never lets a count of 1 through: raise it, or write --by 0",
    ),
    (
        &["run", "--json", "k", "--", "true"],
        "`tenure run` has no answer to write as JSON: leave out `--json`",
    ),
    (
        &["line", "--check", "--json", "k"],
        "`tenure line --check` has no answer to write as JSON: leave out `--json`",
    ),
    (&["run", "x", "true"], "`--` is missing before the command: write `tenure run KEY -- true`"),
    (
        &["drop", "k"],
        "`tenure drop` takes no key: it is about the claim in TENURE_CLAIM, or that of --claim; `tenure \
         break KEY` asks any holder of a key to leave",
    ),
    (&["man", "--json"], "`tenure man` has no answer to write as JSON: leave out `--json`"),
    (
        &["--on", "redis://a", "serve", "--on=redis://b"],
        "--on stands before `serve` and after it: write all stores after it",
    ),
    (
        &["--on", "localhost:6379", "keys"],
        "`localhost:6379` names a server and no store: did you mean `redis://localhost:6379`?",
    ),
];

/// Subcommands of other tools, with the commands that the answer names.
const ALIASES: [(&str, [&str; 2]); 4] = [
    ("ls", ["`tenure keys` ", "`tenure ps` "]),
    ("lock", ["`tenure run KEY -- CMD` ", "`tenure take KEY` "]),
    ("unlock", ["`tenure drop` ", "`tenure break KEY` "]),
    ("status", ["`tenure line KEY` ", "`tenure ps` "]),
];

#[test]
fn a_subcommand_of_another_tool_is_answered_with_the_command_that_does_it() {
    let store = Store::unmade();
    for (alias, commands) in ALIASES {
        for words in [
            &[alias][..],
            &[alias, "nightly"],
            &[alias, "--help"],
            &[alias, "-la", "--frob", "--on", "--", "sleep", "\u{1b}"],
            &["--json", alias, "--json"],
            &["help", alias],
        ] {
            let end = store.end(words);
            is_refused(&end, 64, &format!("`tenure {alias}` does not exist: "));
            assert!(commands.iter().all(|command| end.err.contains(command)), "{end:?}");
        }
        for words in [&["--help"][..], &["completions", "bash"], &["man"]] {
            let page = store.output(words);
            // The line of a value of an option has the value alone.
            let is_offered = page.lines().any(|line| {
                let mut words = line.split_whitespace();
                words.next() == Some(alias) && words.next().is_some()
            });
            assert!(
                !is_offered && !page.contains(&format!("tenure {alias}")),
                "{words:?}: {alias}"
            );
        }
    }
}

#[test]
fn help_offers_json_only_where_there_is_an_answer() {
    let store = Store::unmade();
    for (name, is_offered) in [("top", false), ("renew", false), ("ps", true), ("line", true)] {
        for option in ["-h", "--help"] {
            let page = store.output(&[name, option]);
            assert_eq!(page.contains("  --json"), is_offered, "{name}: {page}");
        }
    }
}

/// The parser refuses these arguments, with this in its message.
fn is_unparsed(end: &End, with: &str) {
    assert_eq!((end.code, end.out.as_str()), (64, ""), "{end:?}");
    assert!(end.err.starts_with("error: ") && end.err.contains(with), "{with}: {}", end.err);
}

#[test]
fn arguments_that_are_wrong() {
    let store = Store::unmade();
    for (words, with) in UNPARSED {
        is_unparsed(&store.end(words), with);
    }
    for (words, sentence) in REFUSED {
        let end = store.end(words);
        assert_eq!(end.err, format!("tenure: {sentence}\n"), "{words:?}");
        assert_eq!((end.code, end.out.as_str()), (64, ""), "{words:?}");
    }
    assert!(!store.path("store").exists(), "nothing was opened for it");
}

#[test]
fn arguments_that_are_wrong_have_their_code_where_nothing_can_be_written() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut command = Store::unmade().tenure(&["no-such-subcommand", "k"]);
    let status = command.stdout(Stdio::null()).stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(64));
}

#[test]
fn an_argument_cannot_move_the_cursor() {
    let end = Store::unmade().end(&["\u{1b}[2J"]);
    is_unparsed(&end, "\\u{1b}[2J");
    assert!(!end.err.contains('\u{1b}'), "{end:?}");
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
fn a_key_that_begins_with_a_dash_stands_after_two() {
    let store = Store::new();
    for verb in ["run", "lead"] {
        let command = ["sh", "-c", "echo \"$TENURE_KEY $*\"", "sh", "--", "-y"];
        for (key, options) in [("-x", &["--ttl", "9s"][..]), ("--", &[]), ("plain", &[])] {
            let words = [&[verb][..], options, &["--", key, "--"], &command].concat();
            assert_eq!(store.output(&words), format!("{key} -- -y\n"), "{words:?}");
        }
    }
    assert_eq!(store.output(&["next", "--", "-x"]), "1\n");
}

#[test]
fn arguments_that_are_not_utf8_are_refused() {
    let store = Store::new();
    let bytes = OsStr::from_bytes(b"k\xff");
    is_unparsed(&end(store.tenure(&["line"]).arg(bytes)), "invalid UTF-8");
    is_unparsed(&end(store.tenure(&["run"]).arg(bytes).args(["--", "true"])), "invalid UTF-8");
    is_refused(&end(store.tenure(&["keys"]).env("TENURE_ON", bytes)), 64, "not UTF-8");
    is_unparsed(&end(store.tenure(&["run", "--"]).arg(bytes)), "<KEY>");
    // The arguments of the command may be any bytes.
    let mut run = store.tenure(&["run", "k", "--", "sh", "-c", "printf %s \"$1\" | wc -c", "sh"]);
    let end = end(run.arg(bytes));
    assert_eq!((end.code, end.out.trim(), end.err.as_str()), (0, "2", ""));
}

#[test]
fn a_bare_number_is_one_of_seconds() {
    let store = Store::new();
    let work = ["--ttl", "30", "--kill-after", "5", "k", "--", "true"];
    store.output(&[&["run", "-w", "5"], &work[..]].concat());
    store.output(&[&["lead"], &work[..]].concat());
    let count = store.output(&["count", "k", "--per", "36000", "--json"]);
    assert!(field(&count, "resets_in_ms").parse::<u64>().unwrap() > 36_000, "{count}");
    // 366 days, and a second more.
    store.output(&["count", "other", "--per", "31622400"]);
    is_unparsed(&store.end(&["count", "k", "--per", "31622401"]), "at most 366d");
    // A URL takes at most an hour.
    let look = |timeout: &str| {
        store.end(&["--on", &format!("redis://127.0.0.1:1?timeout={timeout}"), "keys"])
    };
    is_refused(&look("5"), 69, "127.0.0.1:1");
    is_refused(&look("3601"), 64, "`timeout` takes a time from 1ms to 1h");
}

#[test]
fn durations_that_are_none() {
    for (ttl, with) in [("0s", "too short"), ("100ms", "ttl")] {
        fails(&["run", "--ttl", ttl, "k", "--", "true"], 64, with);
        fails(&["lead", "--ttl", ttl, "k", "--", "true"], 64, with);
    }
    let store = Store::new();
    for (option, value, with) in [
        ("--ttl", "soon", "write it like 30s"),
        ("--wait", "-1s", "-1"),
        ("--kill-after", "x", "write it like 30s"),
    ] {
        is_unparsed(&store.end(&["run", option, value, "k", "--", "true"]), with);
    }
    is_unparsed(&store.end(&["lead", "--ttl", "soon", "k", "--", "true"]), "write it like 30s");
}

#[test]
fn permits_that_are_none() {
    let store = Store::new();
    for (permits, with) in [
        ("6/5", "6 of 5 cannot be taken"),
        ("0/0", "there can be 1 to 1000000 permits"),
        ("0/5", "0 of 5"),
        ("5", "K/N"),
        ("a/b", "K/N"),
        ("1/2000000", "there can be 1 to 1000000 permits"),
        ("1/99999999999", "K/N"),
    ] {
        is_unparsed(&store.end(&["run", "--permits", permits, "k", "--", "true"]), with);
    }
    assert_eq!(store.end(&["keys"]).out, "");
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
        // The missing interpreter is found only when the script is executed.
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
fn no_number_is_taken_for_a_closed_output() {
    let store = Store::new();
    let mut command = std::process::Command::new("sh");
    let words = ["-c", "\"$0\" next k >&-", env!("CARGO_BIN_EXE_tenure")];
    store.dress(command.args(words));
    let lost = end(&mut command);
    assert_eq!(lost.code, 74);
    assert_eq!(lost.err, "tenure: standard output is closed: a number would be lost\n");
    assert_eq!(store.output(&["next", "k"]), "1\n");
    let mut command = std::process::Command::new("sh");
    let words = ["-c", "\"$0\" next k >/dev/null", env!("CARGO_BIN_EXE_tenure")];
    store.dress(command.args(words));
    assert_eq!(end(&mut command).code, 0, "/dev/null is an open output");
}

#[test]
fn an_output_that_is_full_is_reported() {
    let store = Store::new();
    for words in [&["next", "k"][..], &["--help"], &["man"]] {
        let mut command = store.tenure(words);
        let full = File::options().write(true).open("/dev/full").unwrap();
        is_refused(&end(command.stdout(Stdio::from(full))), 74, "cannot write the answer");
    }
}

#[test]
fn a_process_without_a_thread_takes_no_lock() {
    let store = Store::new();
    let redis = &mut store.tenure(&["run", "k", "--", "true"]);
    is_refused(&end(without_threads(redis).env("TENURE_ON", "redis://127.0.0.1:1")), 77, NO_ROOM);
    for wait in [&["--wait", "50s"][..], &["--no-wait"], &[]] {
        let words = [&["run"], wait, &["k", "--", "true"]].concat();
        is_refused(&end(without_threads(&mut store.tenure(&words))), 77, NO_ROOM);
    }
    assert_eq!(store.end(&["keys"]).out, "");
}

const NO_ROOM: &str = "cannot start a thread";

/// No thread can have a stack of this size.
fn without_threads(command: &mut Command) -> &mut Command {
    command.env("RUST_MIN_STACK", (1_u64 << 62).to_string())
}
