//! Several users of one machine, and the first process of a container.

use std::process::Command;

use rustix::process::geteuid;

use crate::kit::{End, Store, end};

/// Runs a script as root in its own namespaces; `$0` is `tenure`. `None`, with a message, without
/// root's rights.
fn apart(store: &Store, flags: &[&str], script: &str) -> Option<End> {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can be several users");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(flags).args(["sh", "-ec", script, env!("CARGO_BIN_EXE_tenure")]);
    store.dress(&mut command);
    Some(end(&mut command))
}

/// Two members of a group with different umasks, and a user outside of the group.
const USERS: &str = "mount -t tmpfs none /var/lib; export TENURE_ON=machine: HOME=/nonexistent; \
    alice() { (umask 077; setpriv --reuid=7001 --regid=7000 --clear-groups \"$@\"); }; \
    bob() { (umask 022; setpriv --reuid=7002 --regid=7000 --clear-groups \"$@\"); }; \
    carol() { setpriv --reuid=7003 --regid=7003 --clear-groups \"$@\"; };";

#[test]
fn a_machine_has_a_store_once_root_has_made_it() {
    let store = Store::new();
    let script = format!("{USERS} alice \"$0\" run k -- true");
    let Some(end) = apart(&store, &["--mount"], &script) else { return };
    assert_eq!((end.code, end.out.as_str()), (77, ""), "{end:?}");
    assert!(end.err.contains("install -d -o root -g GROUP -m 2770 /var/lib/tenure"), "{}", end.err);
}

#[test]
fn a_store_of_the_machine_that_is_not_roots_is_refused_by_root_too() {
    let store = Store::new();
    let script = format!(
        "{USERS} install -d -o 7001 -g 7000 -m 2770 /var/lib/tenure; \
        \"$0\" run k -- echo root || echo $?; alice \"$0\" run k -- echo alice || echo $?"
    );
    let Some(end) = apart(&store, &["--mount"], &script) else { return };
    assert_eq!(end.out, "77\n77\n", "{}", end.err);
    assert_eq!(end.err.matches("belongs to another user (7001)").count(), 2, "{}", end.err);
}

#[test]
fn a_store_on_a_full_disk_can_be_inspected() {
    let store = Store::new();
    let script = "d=$(mktemp -d); mount -t tmpfs -o size=1m none $d; export TENURE_ON=file:$d/store; \
        \"$0\" run k -- sleep 60 & until \"$0\" line k | grep -q holding; do sleep 0.05; done; \
        cat /dev/zero > $d/full 2>/dev/null || echo full; \
        \"$0\" line k | grep -c holding; \"$0\" keys; kill $!; wait";
    let Some(end) = apart(&store, &["--mount"], script) else { return };
    assert_eq!(end.out, "full\n1\nKEY  HOLDING  WAITING\nk          1        0\n", "{}", end.err);
}

#[test]
fn users_of_a_machine_exclude_one_another() {
    let store = Store::new();
    let script = format!(
        "{USERS} install -d -o root -g 7000 -m 2770 /var/lib/tenure; \
        alice \"$0\" run k -- echo alice; bob \"$0\" run k -- echo bob; \
        alice \"$0\" run k -- sleep 600 & \
        until bob \"$0\" line k | grep -q holding; do sleep 0.05; done; \
        bob \"$0\" run -n k -- echo both || echo $?; \"$0\" run -n k -- echo both || echo $?; \
        carol \"$0\" run -n k -- echo carol || echo $?; \
        pkill -KILL -u 7001 -x tenure; bob \"$0\" run k -- echo after; alice \"$0\" run k -- echo again"
    );
    let Some(end) = apart(&store, &["--mount"], &script) else { return };
    assert_eq!(end.out, "alice\nbob\n75\n75\n77\nafter\nagain\n", "{}", end.err);
}

#[test]
fn sudo_warns_that_the_store_is_another() {
    let store = Store::new();
    let words = |command: &mut Command| {
        command.env_remove("TENURE_ON").env("XDG_STATE_HOME", store.path("state"));
        command.env("SUDO_USER", "alice");
        end(command)
    };
    if !geteuid().is_root() {
        println!("SKIPPED: only root gets the warning");
        return;
    }
    let warned = words(&mut store.tenure(&["run", "k", "--", "true"]));
    assert_eq!(warned.code, 0);
    assert!(warned.err.contains("excludes nothing that alice runs without sudo"), "{}", warned.err);
    assert_eq!(words(&mut store.tenure(&["--quiet", "run", "k", "--", "true"])).err, "");
    let on = store.url();
    assert_eq!(words(&mut store.tenure(&["--on", &on, "run", "k", "--", "true"])).err, "");
}

/// Orphans of others become children of the first process of a container.
#[test]
fn the_first_process_of_a_container_reaps_orphans() {
    let store = Store::new();
    let zombies = "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ' Z 1 ' || true";
    for (wait, before) in [(false, ""), (true, "\"$0\" run k -- sleep 1.5 & sleep 0.5;")] {
        let word = if wait { "waited" } else { "ran" };
        let script = format!(
            "{before} sh -c 'sleep 0.4 & exec sleep 0.2' & \
            exec \"$0\" run k -- sh -c \"sleep 0.6; echo {word}; {zombies}\""
        );
        let flags = ["--pid", "--fork", "--mount-proc"];
        let Some(end) = apart(&store, &flags, &script) else { return };
        assert_eq!(end.out, format!("{word}\n0\n"), "{}", end.err);
    }
    // No signal can end the first process, so the exit code reports the signal.
    let script = "exec \"$0\" run k -- sh -c 'kill -TERM $$'";
    let flags = ["--pid", "--fork", "--mount-proc"];
    let Some(end) = apart(&store, &flags, script) else { return };
    assert_eq!(end.code, 143, "{}", end.err);
}
