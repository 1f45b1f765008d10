//! Wrong or unusable stores: the message names the store and the remedy.

use std::fs::{self, File, TryLockError};
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::thread;

use rustix::process::Signal;
use tenure::registry::REGISTER;
use tenure_kit::registry::Visibility;

use super::bad_input::is_refused;
use crate::kit::{Running, Store, end, eventually, field};

#[test]
fn a_store_that_no_other_process_sees() {
    let store = Store::new();
    for words in [
        &["run", "k", "--", "true"][..],
        &["lead", "k", "--", "true"],
        &["next", "k"],
        &["count", "k", "--per", "1s"],
        &["line", "k"],
        &["keys"],
        &["watch"],
    ] {
        let words = [&["--on", "memory:"], words].concat();
        is_refused(&store.end(&words), 77, "visible to one process only");
    }
}

#[test]
fn a_wrong_url_in_the_environment_is_named_as_such() {
    let store = Store::new();
    for words in [&["keys"][..], &["run", "k", "--", "true"], &["lead", "k", "--", "true"]] {
        for url in [" redis://h", "machine:x"] {
            let mut command = store.tenure(words);
            is_refused(&end(command.env("TENURE_ON", url)), 64, "(the URL is in TENURE_ON)");
        }
    }
}

#[test]
fn stores_that_are_none() {
    let store = Store::new();
    let file = store.path("file");
    fs::write(&file, "in the way").unwrap();
    let blocked = format!("file:{}/store", file.display());
    for (url, code, with) in [
        (blocked.as_str(), 77, "is a file and no directory"),
        ("gopher://x", 64, "no engine answers to the scheme `gopher:`; there are machine:, file:"),
        ("/var/locks", 64, "file:"),
        ("file:", 64, "no path"),
        ("redis", 64, "scheme"),
        ("machine:x", 64, "leave out the text after the colon"),
        ("machin:", 64, "did you mean `machine:`?"),
        ("http://127.0.0.1:2379", 64, "did you mean `etcd:`?"),
        ("file:~/locks", 64, "`~` is a home only where a shell expands it"),
        ("redis+unix:~/locks", 64, "`~` is a home only where a shell expands it"),
        ("etcds://h?ca=~/ca.pem", 64, "`~` is a home only where a shell expands it"),
        ("redis://h ", 64, "the URL of a store begins or ends with"),
    ] {
        for words in [&["keys"][..], &["run", "k", "--", "true"], &["next", "k"]] {
            is_refused(&store.end(&[&["--on", url], words].concat()), code, with);
        }
    }
    let secret = store.end(&["--on", "gopher://me:secret@host/", "keys"]);
    assert!(!secret.err.contains("secret"), "{}", secret.err);
}

#[test]
fn the_time_to_wait_is_a_limit_for_connecting_too() {
    let store = Store::new();
    // The kernel accepts connections, and no answer ever comes.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = silent.local_addr().unwrap();
    // An attempt takes longer than any test.
    for (name, limits) in [
        ("redis", "timeout=10m&connect_timeout=10m"),
        ("mongodb", "timeout=10m"),
        ("postgres", "timeout=10m&connect_timeout=10m"),
        ("etcd", "timeout=10m&connect_timeout=10m"),
        ("zookeeper", "timeout=10m&connect_timeout=10m"),
    ] {
        let url = format!("{name}://me:secret@{at}/?{limits}");
        let words = ["--on", &url, "run", "--wait", "100ms", "k", "--", "true"];
        let end = store.end(&words);
        is_refused(&end, 69, &at.to_string());
        assert!(!end.err.contains("secret"), "{end:?}");
        assert!(end.err.contains(&format!("no connection to {name} at ")), "{end:?}");
    }
}

#[test]
fn servers_that_cannot_be_reached_are_named() {
    let store = Store::new();
    // A name of 70 letters is not valid, so no resolver is asked.
    let name = "a".repeat(70);
    for engine in REGISTER.iter().filter(|engine| engine.reach == Visibility::Network) {
        // The URL of a database needs its name.
        let url = match engine.schemes[0].name {
            "mysql" => format!("mysql://me@{name}/database"),
            scheme => format!("{scheme}://{name}"),
        };
        is_refused(&store.end(&["--on", &url, "keys"]), 69, &name);
    }
    for scheme in ["redlock", "postgres", "etcd", "zookeeper"] {
        let url = format!("{scheme}://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
        let end = store.end(&["--on", &url, "keys"]);
        is_refused(&end, 69, "127.0.0.1:");
        for port in 1..=3 {
            assert!(end.err.contains(&format!("127.0.0.1:{port}")), "{}", end.err);
        }
    }
}

#[test]
fn a_directory_that_is_something_else() {
    let store = Store::unmade();
    fs::create_dir(store.path("store")).unwrap();
    fs::write(store.path("store").join("letter"), "not a lock").unwrap();
    for words in [
        &["run", "k", "--", "true"][..],
        &["keys"],
        &["line", "k"],
        &["watch"],
        &["break", "k"],
        &["next", "k"],
    ] {
        is_refused(&store.end(words), 77, "is no store, and not empty (letter is in it)");
    }
}

#[test]
fn a_home_that_cannot_be_written_to() {
    for words in [&["run", "k", "--", "true"][..], &["next", "k"]] {
        let store = Store::new();
        let mut command = store.tenure(words);
        command.env_remove("TENURE_ON").env("XDG_STATE_HOME", "/proc/nowhere");
        is_refused(&end(&mut command), 77, "; name another store with --on, or in TENURE_ON");
    }
}

#[test]
fn no_home_for_a_store() {
    let mut keys = Store::new().tenure(&["keys"]);
    keys.env_remove("TENURE_ON").env_remove("XDG_STATE_HOME").env("HOME", "relative");
    is_refused(&end(&mut keys), 64, "name a store with --on");
}

#[test]
fn an_empty_variable_chooses_no_store() {
    let mut keys = Store::new().tenure(&["keys"]);
    is_refused(&end(keys.env("TENURE_ON", "")), 64, "TENURE_ON is empty: set it to the URL");
}

#[test]
fn a_store_of_ones_own_is_in_the_state_directory() {
    let store = Store::new();
    let state = store.path("state directory");
    let mut next = store.tenure(&["next", "k"]);
    assert_eq!(end(next.env_remove("TENURE_ON").env("XDG_STATE_HOME", &state)).out, "1\n");
    assert!(state.join("tenure/store").exists());
}

#[test]
fn wrong_arguments_are_reported_before_a_silent_store_is_used() {
    let (store, long) = (Store::new(), "x".repeat(5_000));
    for words in [&["", "--", "true"][..], &["k", "--note", &long, "--", "true"]] {
        for verb in ["run", "lead"] {
            let end = store.end(&[&["--on", "redis://127.0.0.1:1", verb], words].concat());
            assert_eq!(end.code, 64, "{verb}: {end:?}");
        }
    }
}

#[test]
fn a_look_makes_no_store() {
    let store = Store::unmade();
    for words in
        [&["line", "k"][..], &["line", "--check", "k"], &["ps"], &["keys"], &["break", "k"]]
    {
        let end = store.end(words);
        assert_eq!((end.code, end.out.as_str()), (69, ""), "{words:?}");
        assert!(end.err.contains("there is no store at file:"), "{words:?}: {}", end.err);
        assert!(!store.path("store").exists(), "{words:?}");
    }
    // The user's own store is created by the first lock.
    for (words, code) in [
        (&["line", "k"][..], 0),
        (&["line", "--check", "k"], 1),
        (&["ps"], 0),
        (&["keys"], 0),
        (&["break", "k"], 1),
    ] {
        let mut command = store.tenure(words);
        command.env_remove("TENURE_ON").env("XDG_STATE_HOME", store.path("state"));
        let end = end(&mut command);
        assert_eq!((end.code, end.out.as_str()), (code, ""), "{words:?}: {}", end.err);
        let is_said = end.err.contains("/tenure yet: the first lock there creates it");
        assert_eq!(is_said, !words.contains(&"--check"), "{words:?}: {}", end.err);
        assert!(!store.path("state").exists(), "{words:?}");
    }
}

#[test]
fn a_lock_in_a_damaged_file_looks_free_in_no_view() {
    let store = Store::new();
    let holder = store.start(&["run", "k", "--", "sleep", "600"]);
    store.line_has("k", 1);
    let other = "another key, in another file";
    let _other = store.start(&["run", other, "--", "sleep", "600"]);
    store.line_has(other, 1);
    for book in fs::read_dir(store.path("store/books")).unwrap() {
        let path = book.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        if bytes.windows(6).any(|part| part == b"sleep[") && !contains(&bytes, other) {
            fs::write(&path, "garbage").unwrap();
        }
    }
    let damage = format!("process {} ", holder.pid());
    for words in [&["line", "k"][..], &["line", "--check", "k"], &["ps"], &["keys"]] {
        let end = store.end(words);
        assert_eq!(end.code, 77, "{words:?}: {end:?}");
        assert!(end.err.contains("was damaged") && end.err.contains(&damage), "{words:?}: {end:?}");
        assert_eq!(end.out.contains(other), words.len() == 1, "it hides no other: {end:?}");
    }
    let top = store.end(&["top"]);
    assert!(top.err.contains("was damaged") && top.out.contains(other), "{top:?}");
    let doctor = store.end(&["doctor"]);
    assert!(doctor.code == 1 && doctor.out.contains("was damaged"), "{doctor:?}");
    // All files are damaged, also that of the doctor's own keys.
    for book in 0..64 {
        fs::write(store.path(&format!("store/books/{book:02x}")), "garbage").unwrap();
    }
    let doctor = store.end(&["doctor"]);
    let refused = doctor.out.contains("the store refuses a read: ");
    assert!(doctor.code == 1 && refused, "{doctor:?}");
}

#[test]
fn a_damaged_file_that_is_set_aside_is_reported_once() {
    let store = Store::new();
    store.output(&["next", "k"]);
    for options in [&[][..], &["--quiet"]] {
        for book in fs::read_dir(store.path("store/books")).unwrap() {
            fs::write(book.unwrap().path(), "garbage").unwrap();
        }
        let words = [options, &["next", "k"]].concat();
        let said = store.end(&words);
        assert_eq!(said.code, 0, "{said:?}");
        let with = "of the lock store was damaged: it has no header (set aside as /";
        let is_reported = said.err.starts_with("tenure: warning: file ") && said.err.contains(with);
        assert_eq!(is_reported, options.is_empty(), "{said:?}");
        assert_eq!(said.err.lines().count(), usize::from(is_reported), "{said:?}");
        assert_eq!(store.end(&words).err, "");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_reported_and_stays_with_the_command() {
    let store = Store::new();
    let limited = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -f 0; exec {script}"), env!("CARGO_BIN_EXE_tenure")]);
        store.dress(&mut command);
        end(&mut command)
    };
    store.output(&["next", "k"]);
    is_refused(&limited("\"$0\" next k"), 77, "raise `ulimit -f`");
    let script = "ulimit -f 0; echo text >>$LOG";
    assert_eq!(store.end(&["run", "k", "--", "sh", "-c", script]).code, 128 + 25);
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

#[test]
fn a_monitor_may_start_before_the_store_is_made() {
    let store = Store::unmade();
    let mut watch = store.tenure(&["watch", "--json"]).spawn().unwrap();
    let mut said = BufReader::new(watch.stderr.take().unwrap()).lines();
    let said = said.next().unwrap().unwrap();
    assert!(said.contains("waiting for the first lock: there is no store at file:"), "{said}");
    assert!(!store.path("store").exists(), "a look makes no store");
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let first = thread::spawn(move || lines.next().unwrap().unwrap());
    // The watch begins at an unknown time.
    while !first.is_finished() {
        assert_eq!(store.end(&["run", "k", "--", "true"]).code, 0);
    }
    assert_eq!(field(&first.join().unwrap(), "key"), "k");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

#[test]
fn a_new_store_is_named_once_and_its_parent_must_be_there() {
    for words in [&["run", "k", "--", "true"][..], &["lead", "k", "--", "true"], &["next", "k"]] {
        let store = Store::unmade();
        let made = format!("tenure: made a new store at {}\n", store.path("store").display());
        assert_eq!(store.end(words).err, made, "{words:?}");
        assert_eq!(store.end(words).err, "", "{words:?}");
        let quiet = Store::unmade();
        assert_eq!(quiet.end(&[&["--quiet"], words].concat()).err, "", "{words:?}");
        let below = Store::at(format!("file:{}/a/b/c", store.path("none").display()));
        let sentence = "/none/a/b to make a store in: correct the path, or make it with --make";
        is_refused(&below.end(words), 77, sentence);
        assert!(!store.path("none").exists(), "nothing is made");
        let end = below.end(&[&["--make"], words].concat());
        assert_eq!(end.code, 0, "{end:?}");
        assert!(end.err.contains("made a new store at "), "{}", end.err);
        assert!(store.path("none/a/b/c").exists());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_store_where_no_directory_can_be_made() {
    let words = ["--make", "--on", "file:/proc/none/locks", "run", "k", "--", "true"];
    let with =
        "/proc/none/locks cannot be a store: no directory can be made in /proc; name one elsewhere";
    is_refused(&Store::new().end(&words), 77, with);
}

/// Starts a process that locks the book of the key that was used. That book is the longest.
fn lock_book(store: &Store) -> Running {
    let books = fs::read_dir(store.path("store").join("books")).unwrap();
    let books = books.map(|book| book.unwrap().path());
    let book = books.max_by_key(|book| fs::metadata(book).unwrap().len()).unwrap();
    let file = File::open(&book).unwrap();
    let mut flock = Command::new("flock");
    // `cat` ends with the input, which this process has open. It does not inherit the lock.
    flock.arg("--close").arg(book).arg("cat").stdin(Stdio::piped());
    let locker = Running::of(&mut flock);
    eventually("a locked book", || match file.try_lock() {
        Ok(()) => file.unlock().is_err(),
        Err(error) => matches!(error, TryLockError::WouldBlock),
    });
    locker
}

#[test]
fn a_stopped_process_that_keeps_a_file_of_the_store_locked_is_named() {
    let store = Store::new();
    store.output(&["run", "k", "--", "true"]);
    let locker = lock_book(&store);
    locker.signal(Signal::STOP);
    for words in [
        &["run", "--wait", "500ms", "k", "--", "true"][..],
        &["run", "--no-wait", "k", "--", "true"],
        &["line", "k"],
    ] {
        let end = store.end(words);
        let who = format!("is kept locked by process {} (flock), which is stopped", locker.pid());
        assert!(end.code == 69 && end.err.contains(&who), "{words:?}: {end:?}");
    }
}
