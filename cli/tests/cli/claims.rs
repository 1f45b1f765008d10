//! Claims over several commands: their life, their loss, and claims on paths.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{End, Running, Store, end, eventually, field, is_alive};

/// `tenure` with these arguments, on this store and with its own directory of claims.
pub(crate) fn tenure(store: &Store, words: &[&str]) -> Command {
    let mut command = store.tenure(words);
    dress(store, &mut command);
    command
}

pub(crate) fn dress(store: &Store, command: &mut Command) {
    command.env("XDG_STATE_HOME", store.path("state")).env_remove("TENURE_CLAIM");
    command.env("TENURE", env!("CARGO_BIN_EXE_tenure"));
}

pub(crate) fn ask(store: &Store, words: &[&str]) -> End {
    end(&mut tenure(store, words))
}

/// Takes a claim that ends with this test.
pub(crate) fn take(store: &Store, words: &[&str]) -> String {
    let taken = ask(store, &[&["take"], words].concat());
    assert_eq!((taken.code, taken.err.as_str()), (0, ""), "{words:?}");
    taken.out
}

pub(crate) fn id(claim: &str) -> &str {
    field(claim, "claim")
}

pub(crate) fn holder(claim: &str) -> i32 {
    field(claim, "pid").parse().unwrap()
}

pub(crate) fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// Runs a command on a claim.
pub(crate) fn with(store: &Store, verb: &str, claim: &str) -> End {
    ask(store, &[verb, "--claim", id(claim)])
}

/// Whether a key is free.
pub(crate) fn is_free(store: &Store, key: &str) -> bool {
    store.end(&["run", "-n", key, "--", "true"]).code == 0
}

pub(crate) fn is_lost(end: &End, with: &str) {
    assert_eq!(end.code, 76, "{end:?}");
    assert!(end.err.contains("is lost") && end.err.contains(with), "{end:?}");
    assert_eq!(end.err.lines().count(), 1, "{end:?}");
}

/// The files of the claims.
pub(crate) fn files(store: &Store) -> Vec<String> {
    let files = fs::read_dir(store.path("state/tenure-claims")).into_iter().flatten().flatten();
    files.map(|file| file.file_name().into_string().unwrap()).collect()
}

/// A shell that logs its claim and waits, as the script of a user does.
fn shell(store: &Store, script: &str) -> Running {
    let mut command = Command::new("sh");
    dress(store, store_dressed(store, command.args(["-c", script])));
    Running::of(command.stdout(Stdio::null()).stderr(Stdio::null()))
}

fn store_dressed<'a>(store: &Store, command: &'a mut Command) -> &'a mut Command {
    store.dress(command);
    command
}

/// The claim that a shell has written to a file.
fn claim_in(path: &Path) -> String {
    eventually("a claim in the file", || path.exists());
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_claim_is_held_over_several_commands_until_it_is_dropped() {
    let store = Store::new();
    let claim = take(&store, &["k"]);
    assert!(claim.starts_with("{\"claim\":\"") && claim.ends_with("}\n"), "{claim}");
    assert_eq!(field(&claim, "key"), "k");
    assert_eq!(field(&claim, "kind"), "exclusive");
    assert_eq!(field(&claim, "on"), store.url());
    let entry = store.line("k").concat();
    assert_eq!(field(&claim, "id"), field(&entry, "id"));
    assert_eq!(field(&claim, "token"), field(&entry, "token"));
    for _ in 0..3 {
        let renewed = with(&store, "renew", &claim);
        assert_eq!((renewed.code, renewed.out + &renewed.err), (0, String::new()));
        assert!(!is_free(&store, "k"));
    }
    let dropped = with(&store, "drop", &claim);
    assert_eq!((dropped.code, dropped.out + &dropped.err), (0, String::new()));
    assert!(is_free(&store, "k"));
    assert_eq!(files(&store), [""; 0]);
    for verb in ["renew", "drop", "show"] {
        is_lost(&with(&store, verb, &claim), "no process holds it any more");
    }
}

#[test]
fn a_claim_is_named_by_its_text_its_id_or_a_file() {
    let store = Store::new();
    let file = store.path("claim.json");
    let path = file.to_str().unwrap();
    assert_eq!(take(&store, &["k", "--file", path]), "");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let claim = claim_in(&file);
    for text in [claim.as_str(), id(&claim), path] {
        let by_environment = end(tenure(&store, &["renew"]).env("TENURE_CLAIM", text));
        assert_eq!(by_environment.code, 0, "{by_environment:?}");
        assert_eq!(ask(&store, &["renew", "--claim", text]).code, 0);
    }
    let unnamed = ask(&store, &["renew"]);
    assert_eq!(unnamed.code, 64);
    assert!(unnamed.err.contains("no claim is named"), "{unnamed:?}");
    assert_eq!(ask(&store, &["drop", "--claim", "no-such-file"]).code, 64);
    assert_eq!(with(&store, "drop", &claim).code, 0);
}

#[test]
fn a_command_substitution_ends_and_its_claim_lives_as_long_as_its_shell() {
    let store = Store::new();
    // The second one runs in a shell of its own, which ends at once.
    for substitution in ["$($TENURE take k)", "$($TENURE take k | cat; true)"] {
        let script = format!(
            "x={substitution}; echo \"$x\" >c.new; mv c.new claim; while :; do sleep 0.05; done"
        );
        for program in ["sh", "bash"] {
            let mut command = Command::new(program);
            dress(&store, store_dressed(&store, command.args(["-c", &script])));
            command.current_dir(store.path(".")).stdout(Stdio::null()).stderr(Stdio::null());
            let shell = Running::of(&mut command);
            let claim = claim_in(&store.path("claim"));
            for _ in 0..3 {
                assert_eq!(with(&store, "renew", &claim).code, 0, "{program} {substitution}");
            }
            assert!(
                ask(&store, &["show", "--json"])
                    .out
                    .contains(&format!("\"while_pid\":{}", shell.pid()))
            );
            shell.signal(Signal::KILL);
            eventually("a free key", || is_free(&store, "k"));
            eventually("the end of the holder", || !is_alive(holder(&claim)));
            assert_eq!(files(&store), [""; 0]);
            fs::remove_file(store.path("claim")).unwrap();
        }
    }
}

#[test]
fn no_inherited_file_stays_open_in_a_claim() {
    let store = Store::new();
    let mut command = Command::new("sh");
    // Descriptor 7 is a pipe to `cat`, which ends when all of its writers have closed it.
    let script =
        "{ $TENURE take k >claim 7>&1; } 2>&1 | cat; cat claim; $TENURE renew --claim claim";
    dress(&store, store_dressed(&store, command.args(["-c", script])));
    let ended = end(command.current_dir(store.path(".")));
    assert!(ended.out.starts_with("{\"claim\""), "{ended:?}");
    let script = "(trap '' TERM; $TENURE take --while-pid $$ k2 7>&1 >claim) | cat >all; cat claim";
    let mut command = Command::new("sh");
    dress(&store, store_dressed(&store, command.args(["-c", script])));
    let ended = end(command.current_dir(store.path(".")));
    assert!(ended.out.starts_with("{\"claim\""), "{ended:?}");
}

#[test]
fn a_claim_ends_with_the_process_that_it_follows() {
    let store = Store::new();
    let mut sleep = Command::new("sleep");
    let followed = Running::of(sleep.arg("600").stdout(Stdio::null()));
    let claim = take(&store, &["k", "--while-pid", &followed.pid().to_string()]);
    let waiter = store.start(&["run", "k", "--", "true"]);
    store.line_has("k", 2);
    assert_eq!(with(&store, "renew", &claim).code, 0);
    followed.signal(Signal::KILL);
    assert_eq!(waiter.end().code, 0);
    // It is a zombie until here, and counts as ended.
    drop(followed);
    eventually("the end of the holder", || !is_alive(holder(&claim)));
    is_lost(&with(&store, "renew", &claim), "no process holds it any more");
    for pid in ["0", "-1", "2147483647"] {
        let refused = ask(&store, &["take", "k", &format!("--while-pid={pid}")]);
        assert_eq!(refused.code, 64, "{refused:?}");
    }
    assert!(is_free(&store, "k"));
}

#[test]
fn a_take_whose_parent_has_ended_is_refused() {
    let store = Store::new();
    // A session of its own, because the system's first process may be a shell of this session: its
    // child is no orphan.
    let script = "parent=$$; (while kill -0 $parent 2>/dev/null; do sleep 0.02; done; \
                  exec setsid sh -c 'echo \"adopted by $PPID.\"; exec \"$TENURE\" take k') \
                  >>\"$LOG\" 2>&1 &";
    assert_eq!(shell(&store, script).end().code, 0);
    store.log_has("adopted by ");
    if !store.log().contains("adopted by 1.") {
        println!("SKIPPED: a process that is not the system's first adopts orphans here");
        return;
    }
    store.log_has("no parent that the claim could end with");
    assert!(is_free(&store, "k"));
}

#[test]
fn a_waiting_take_leaves_nothing_behind() {
    let store = Store::new();
    let claim = take(&store, &["k"]);
    for ending in [Signal::INT, Signal::TERM, Signal::KILL] {
        let waiter = Running::of(&mut tenure(&store, &["take", "a", "k"]));
        store.line_has("k", 2);
        waiter.signal(ending);
        let code = waiter.end().code;
        assert_eq!(code, 1000 + ending.as_raw());
        store.line_has("k", 1);
        eventually("a free key", || is_free(&store, "a"));
    }
    // The shell of a waiting `take` is killed.
    let shell = shell(&store, "$TENURE take a k; true");
    store.line_has("k", 2);
    shell.signal(Signal::KILL);
    store.line_has("k", 1);
    assert_eq!(with(&store, "drop", &claim).code, 0);
    eventually("no file of a claim", || files(&store).is_empty());
}

#[test]
fn a_claim_that_cannot_be_handed_out_is_not_held() {
    let store = Store::new();
    let full = File::options().write(true).open("/dev/full").unwrap();
    assert_eq!(end(tenure(&store, &["take", "k"]).stdout(Stdio::from(full))).code, 74);
    assert!(is_free(&store, "k"));
    let refused = ask(&store, &["take", "k", "--file", "/no/such/directory/claim"]);
    assert_eq!(refused.code, 74, "{refused:?}");
    assert!(is_free(&store, "k"));
    assert_eq!(files(&store), [""; 0]);
}

#[test]
fn several_keys_are_all_taken_or_none() {
    let store = Store::new();
    let one = take(&store, &["b"]);
    let busy = ask(&store, &["take", "-n", "c", "b", "a"]);
    assert_eq!((busy.code, busy.out.as_str()), (75, ""));
    assert!(busy.err.contains("`b` is busy"), "{busy:?}");
    assert_eq!(ask(&store, &["take", "-w", "10ms", "a", "b", "c"]).code, 75);
    assert!(is_free(&store, "a") && is_free(&store, "c"));
    let waiter = Running::of(&mut tenure(&store, &["take", "c", "b", "a", "c"]));
    store.line_has("b", 2);
    assert_eq!(with(&store, "drop", &one).code, 0);
    let all = waiter.end();
    assert_eq!(all.code, 0, "{all:?}");
    assert_eq!(all.out.matches("\"key\":").count(), 3);
    for key in ["a", "b", "c"] {
        assert!(!is_free(&store, key));
    }
    assert_eq!(with(&store, "drop", &all.out).code, 0);
    let shared = ["one", "other"].map(|_| take(&store, &["--shared", "a", "b"]));
    assert_eq!(ask(&store, &["take", "-n", "b"]).code, 75);
    for claim in &shared {
        assert_eq!(with(&store, "drop", claim).code, 0);
    }
}

#[test]
fn crossing_claims_never_wait_for_each_other() {
    let store = Store::new();
    let pairs = [["a", "b"], ["b", "c"], ["c", "a"], ["b", "a"]];
    let takes: Vec<_> = (0..12)
        .map(|at| {
            let file = format!("claim-{at}");
            let keys = pairs[at % pairs.len()].join(" ");
            let script = format!(
                "cd \"${{LOG%/*}}\" && $TENURE take {keys} --file {file} && echo in {keys} >>$LOG && \
                 $TENURE renew --claim {file} && $TENURE drop --claim {file} && echo out >>$LOG"
            );
            shell(&store, &script)
        })
        .collect();
    for take in takes {
        assert_eq!(take.end().code, 0, "{}", store.log());
    }
    assert_eq!(store.log().matches("out").count(), 12);
    assert_eq!(files(&store), [""; 0]);
}
