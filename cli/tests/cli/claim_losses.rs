//! Lost claims, claims with a ttl, and claims on paths.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::claims::{ask, dress, files, holder, id, is_free, is_lost, signal, take, tenure, with};
use crate::kit::{Running, Store, end, eventually, field, is_alive, stands_still};

#[test]
fn the_claim_of_a_killed_holder_is_lost() {
    let store = Store::new();
    let claim = take(&store, &["k", "l"]);
    signal(holder(&claim), Signal::KILL);
    eventually("free keys", || is_free(&store, "k") && is_free(&store, "l"));
    for verb in ["renew", "show", "drop"] {
        is_lost(&with(&store, verb, &claim), "was killed");
    }
    assert_eq!(files(&store), [""; 0], "the drop has reported it");
    is_lost(&with(&store, "renew", &claim), "no process holds it any more");
}

#[test]
fn a_holder_that_is_asked_to_end_gives_its_claim_up() {
    let store = Store::new();
    let claim = take(&store, &["k"]);
    signal(holder(&claim), Signal::TERM);
    eventually("a free key", || is_free(&store, "k"));
    is_lost(&with(&store, "renew", &claim), "a signal has ended");
    is_lost(&with(&store, "drop", &claim), "a signal has ended");
}

#[test]
fn a_broken_claim_keeps_its_locks_until_a_command_has_reported_the_loss() {
    let store = Store::new();
    for verb in ["renew", "drop"] {
        let claim = take(&store, &["k", "l"]);
        let waiter = store.start(&["run", "k", "--", "sh", "-c", "echo served >>$LOG"]);
        store.line_has("k", 2);
        let command = field(&store.output(&["ps", "k", "--json"]), "command").to_owned();
        assert_eq!(command, "claim-holder");
        let said = store.output(&["break", "k"]);
        assert!(said.contains("it is a claim, so no program is stopped; ticket "), "{said}");
        assert!(said.contains("has reported the loss, at the latest in 30s\n"), "{said}");
        eventually("a loss", || with(&store, "show", &claim).code == 76);
        assert!(!is_free(&store, "l") && store.log().is_empty());
        let shown = ask(&store, &["show", "--json"]);
        assert_eq!((shown.code, field(&shown.out, "state")), (0, "lost"));
        is_lost(&with(&store, verb, &claim), "asked its holder to leave");
        assert_eq!(waiter.end().code, 0);
        eventually("a free key", || is_free(&store, "l"));
        is_lost(&with(&store, "drop", &claim), "");
        assert_eq!(files(&store), [""; 0]);
        fs::remove_file(store.path("log")).unwrap();
    }
}

#[test]
fn a_stopped_holder_is_reported_and_holds_no_command_up() {
    let store = Store::new();
    let claim = take(&store, &["k"]);
    let pid = holder(&claim);
    signal(pid, Signal::STOP);
    eventually("all of it stands still", || stands_still(pid));
    let start = |verb| Running::of(&mut tenure(&store, &[verb, "--claim", id(&claim)]));
    let questions = ["renew", "show"].map(start);
    for question in questions {
        let ended = question.end();
        assert_eq!(ended.code, 69, "{ended:?}");
        assert!(ended.err.contains("does not answer"), "{ended:?}");
    }
    assert!(!is_free(&store, "k"), "its file lock lives as long as its process");
    signal(pid, Signal::CONT);
    assert_eq!(with(&store, "renew", &claim).code, 0);
    assert_eq!(with(&store, "drop", &claim).code, 0);
}

#[test]
fn a_renewal_after_a_pause_beyond_the_ttl_revives_nothing() {
    const TTL: Duration = Duration::from_secs(5);
    let store = Store::new();
    let claim = take(&store, &["k", "--ttl", "5s"]);
    let pid = holder(&claim);
    // The ttl begins when the holder knows that the claim has reached its caller.
    assert_eq!(with(&store, "renew", &claim).code, 0);
    signal(pid, Signal::STOP);
    eventually("all of it stands still", || stands_still(pid));
    let stopped = Instant::now();
    let renewal = Running::of(&mut tenure(&store, &["renew", "--claim", id(&claim)]));
    eventually("the end of the ttl", || stopped.elapsed() > TTL);
    signal(pid, Signal::CONT);
    is_lost(&renewal.end(), "");
    is_lost(&with(&store, "drop", &claim), "was not renewed for 5s");
    assert!(is_free(&store, "k"));
}

#[test]
fn a_claim_with_a_ttl_outlives_its_shell_and_ends_without_a_renewal() {
    let store = Store::new();
    let file = store.path("claim");
    let mut shell = Command::new("sh");
    store.dress(shell.args(["-c", "$TENURE take k --ttl 1h --file claim; exit 3"]));
    dress(&store, &mut shell);
    assert_eq!(end(shell.current_dir(store.path("."))).code, 3);
    let claim = fs::read_to_string(&file).unwrap();
    assert_eq!(with(&store, "renew", &claim).code, 0);
    assert!(!is_free(&store, "k"));
    let shown = with(&store, "show", &claim);
    assert!(shown.out.contains("held"), "{shown:?}");
    assert_eq!(with(&store, "drop", &claim).code, 0);

    let claim = take(&store, &["k", "--ttl", "100ms"]);
    eventually("a free key", || is_free(&store, "k"));
    is_lost(&with(&store, "renew", &claim), "was not renewed for 100ms");
    assert_eq!(ask(&store, &["take", "k", "--ttl", "0s"]).code, 64);
    assert_eq!(ask(&store, &["take", "k", "--ttl", "1s", "--while-pid", "1"]).code, 64);
}

#[test]
fn sessions_of_one_user_share_their_claims() {
    let store = Store::new();
    let claim = take(&store, &["k"]);
    let session = |script: &str| {
        let mut command = Command::new("setsid");
        store.dress(command.args(["--wait", "sh", "-c", script]));
        dress(&store, &mut command);
        end(command.env("CLAIM", &claim))
    };
    assert_eq!(session("$TENURE take -n k").code, 75);
    assert_eq!(session("TENURE_CLAIM=$CLAIM $TENURE renew").code, 0);
    let other = session("$TENURE take other >/dev/null; $TENURE show --json");
    assert_eq!(other.out.lines().count(), 2, "{other:?}");
    assert_eq!(other.out.matches("\"state\":\"held\"").count(), 2);
    assert_eq!(session("$TENURE drop --claim \"$CLAIM\"").code, 0);
    assert_eq!(session("$TENURE take -n k").code, 0);
    eventually("the end of the session's claims", || files(&store).is_empty());
    is_lost(&with(&store, "renew", &claim), "");
}

#[test]
fn a_directory_of_claims_that_others_can_enter_is_refused() {
    let store = Store::new();
    let state = store.path("state");
    fs::create_dir(&state).unwrap();
    DirBuilder::new().mode(0o755).create(state.join("tenure-claims")).unwrap();
    for words in [&["take", "k"][..], &["show"]] {
        let refused = ask(&store, words);
        assert_eq!(refused.code, 77, "{refused:?}");
        assert!(refused.err.contains("chmod 700"), "{refused:?}");
    }
    assert!(is_free(&store, "k"));
}

#[test]
fn files_of_claims_that_ended_long_ago_are_removed_by_the_next_take() {
    let store = Store::new();
    let claims = ["held", "killed", "old"].map(|key| take(&store, &[key]));
    for claim in &claims[1..] {
        signal(holder(claim), Signal::KILL);
        eventually("the end of the holder", || !is_alive(holder(claim)));
    }
    let directory = store.path("state/tenure-claims");
    for claim in [&claims[0], &claims[2]] {
        for ending in ["claim", "socket"] {
            let file = directory.join(format!("{}.{ending}", id(claim)));
            let mut touch = Command::new("touch");
            assert!(touch.args(["-d", "2 days ago"]).arg(file).status().unwrap().success());
        }
    }
    fs::write(directory.join("no-claim"), "a file of another program").unwrap();
    take(&store, &["next"]);
    let left = files(&store).concat();
    assert!(left.contains(id(&claims[0])) && left.contains(id(&claims[1])), "{left}");
    assert!(!left.contains(id(&claims[2])) && left.contains("no-claim"), "{left}");
    assert_eq!(with(&store, "renew", &claims[0]).code, 0);
    is_lost(&with(&store, "renew", &claims[1]), "was killed");
}

#[test]
fn a_url_with_a_password_is_in_no_argument_and_in_no_claim() {
    let store = Store::at("redis://user:secret@127.0.0.1:1?timeout=5s");
    let url = store.url();
    let take = Running::of(&mut tenure(&store, &["--on", &url, "take", "-w", "1h", "k"]));
    let holders = || crate::kit::children(take.pid());
    eventually("a claim holder", || holders().len() == 1);
    let arguments = || {
        let pid = holders()[0];
        fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap()
    };
    eventually("its own arguments", || arguments().starts_with("claim-holder"));
    assert!(!arguments().contains("secret"));
    let pid = holders()[0];
    drop(take);
    eventually("the end of the holder", || !is_alive(pid));
}

#[test]
fn claims_on_paths_exclude_each_other_as_their_paths_contain_each_other() {
    let store = Store::new();
    let top = store.path("tree");
    fs::create_dir_all(top.join("src/db")).unwrap();
    fs::create_dir(top.join(".git")).unwrap();
    // The second tree is a linked work tree, whose `.git` is a file.
    let linked = store.path("linked");
    fs::create_dir_all(linked.join("src/db")).unwrap();
    fs::write(linked.join(".git"), "gitdir: elsewhere\n").unwrap();
    let paths = ["src", "src/db", "src/db/a.rs", "src/db/a.rs.orig", "srcs", "."];
    for one in paths {
        let claim = end(tenure(&store, &["take", "--path", one]).current_dir(&top));
        assert_eq!(claim.code, 0, "{claim:?}");
        for other in paths {
            let overlap = [(one, other), (other, one)]
                .into_iter()
                .any(|(one, other)| one == "." || Path::new(other).starts_with(one));
            // From below, the same file has another relative path.
            let (here, path) = match other.strip_prefix("src/db/") {
                Some(below) => (linked.join("src/db"), below.to_owned()),
                None => (linked.clone(), other.to_owned()),
            };
            let attempt = end(tenure(&store, &["take", "-n", "--path", &path]).current_dir(here));
            assert_eq!(attempt.code, if overlap { 75 } else { 0 }, "{one} {other} {attempt:?}");
            if attempt.code == 0 {
                assert_eq!(with(&store, "drop", &attempt.out).code, 0);
            }
        }
        assert_eq!(with(&store, "drop", &claim.out).code, 0);
    }
    let keys = end(tenure(&store, &["take", "--path", "b", "src/a"]).current_dir(&top));
    assert_eq!(keys.code, 0);
    let listed = store.output(&["keys", "--json", "path:"]);
    let listed: Vec<_> = listed.lines().map(|line| field(line, "key")).collect();
    assert_eq!(listed, ["path:.", "path:b", "path:src", "path:src/a"]);
    let both = ask(&store, &["take", "k", "--path", "a"]);
    assert_eq!(both.code, 64, "a pattern of the shell becomes no key: {both:?}");
}
