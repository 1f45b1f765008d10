//! Guarded writes: a transaction of the user's own, with another client, is done only while the
//! lock is held.

use std::cell::RefCell;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use tenure_conformance::AnyGuard;
use tenure_conformance::helper::{self, Helper};
use tenure_core::blocking::block_on;
use tenure_core::{ErrorKind, LeaseHandle};
use tenure_etcd::StillHeld;
use tenure_servers::Store as _;
use tenure_servers::etcd::{Cluster, ETCDCTL};

use super::operators::keys;
use super::stage::{TTL, connect, play, soon};

/// Writes with etcdctl if the lock is still held, and returns whether it was.
fn writes(member: u16, state: &str, still_held: &StillHeld) -> bool {
    let mut etcdctl = Command::new(ETCDCTL.found().expect("it is here"))
        .env("ETCDCTL_API", "3")
        .args([&format!("--endpoints=127.0.0.1:{member}"), "txn"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let transaction = format!("{still_held}\n\nput state {state}\n\n\n");
    etcdctl.stdin.take().unwrap().write_all(transaction.as_bytes()).unwrap();
    let output = etcdctl.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.starts_with("SUCCESS") || said.starts_with("FAILURE"), "{said}");
    said.starts_with("SUCCESS")
}

/// Returns the comparison for a lock that is held.
fn find(url: &str, held: &LeaseHandle) -> StillHeld {
    block_on(StillHeld::find(url, held)).unwrap()
}

fn state(cluster: &Cluster) -> String {
    cluster.ctl(&["get", "--print-value-only", "state"]).unwrap().trim().to_owned()
}

#[test]
fn a_holder_that_slept_past_its_lease_cannot_write_any_more() {
    play(1, async |cluster| {
        let member = cluster.members()[0].port();
        let mut helper = Helper::start(&cluster.url(), "guarded::helper_process");
        helper.tell(&format!("lock a {}", TTL.as_millis()));
        let old = helper.hear_token();
        helper.tell(&format!("find {}", cluster.url()));
        assert_eq!(helper.hear(), "found");
        helper.tell(&format!("write {member} old"));
        assert_eq!(helper.hear(), "written");

        helper.stop();
        let locks = connect(&cluster).await;
        let guard = soon("the next holder gets it", locks.mutex("a").lock()).await.unwrap();
        assert!(guard.token().get() > old);
        assert!(writes(member, "new", &find(&cluster.url(), &guard.handle())));
        helper.go_on();

        // It writes without a look at its guard: etcd refuses it.
        helper.tell(&format!("write {member} old"));
        assert_eq!(helper.hear(), "refused");
        assert_eq!(state(&cluster), "new");
        helper.tell("check");
        assert_eq!(helper.hear(), "lost");
        guard.check().unwrap();
    });
}

#[test]
fn a_lock_whose_number_was_raised_may_write() {
    play(1, async |cluster| {
        let (locks, member) = (connect(&cluster).await, cluster.members()[0].port());
        let first = locks.mutex("k").lock().await.unwrap();
        let key = keys(&cluster).remove(0);
        let line = key.rsplitn(4, '/').last().unwrap();
        cluster.ctl(&["put", &format!("{line}/n"), "1000"]).unwrap();
        first.release().await.unwrap();
        let guard = locks.mutex("k").lock().await.unwrap();
        assert!(guard.token().get() > 1000);
        let still_held = find(&cluster.url(), &guard.handle());
        assert!(writes(member, "held", &still_held));
        guard.release().await.unwrap();
        assert!(!writes(member, "lost", &still_held));
        assert_eq!(state(&cluster), "held");
    });
}

/// Not a test: where the helper process begins.
#[test]
fn helper_process() {
    let found = RefCell::new(None);
    helper::serve_also(tenure_etcd::connect, |guard, line| {
        let words: Vec<&str> = line.split(' ').collect();
        let said = match words[..] {
            ["find", url] => {
                *found.borrow_mut() = Some(find(url, &guard.handle()));
                "found"
            }
            ["write", member, state] => {
                let still_held = found.borrow();
                let still_held = still_held.as_ref().expect("it was found");
                let is_written = writes(member.parse().unwrap(), state, still_held);
                if is_written { "written" } else { "refused" }
            }
            _ => panic!("unknown command of a helper: {line:?}"),
        };
        said.to_owned()
    });
}

#[test]
fn whatever_is_held_may_write_until_it_is_given_back() {
    play(1, async |cluster| {
        let (locks, member) = (connect(&cluster).await, cluster.members()[0].port());
        let may_write = |held: &LeaseHandle| {
            let still_held = find(&cluster.url(), held);
            assert!(writes(member, "x", &still_held), "{still_held}");
            still_held
        };
        let mutex: AnyGuard = locks.mutex("a").lock().await.unwrap().into();
        let one = locks.rwlock("b").read().await.unwrap().into();
        let two = locks.rwlock("b").read().await.unwrap().into();
        let permits = locks.semaphore("c", 5).acquire_many(2).await.unwrap().into();
        let seat = locks.election("d").campaign().await.unwrap().into();
        for guard in [mutex, one, two, permits, seat] {
            let still_held = may_write(&guard);
            guard.release().await.unwrap();
            assert!(!writes(member, "y", &still_held), "{still_held}");
        }
        assert_eq!(state(&cluster), "x");
    });
}

#[test]
fn who_is_forced_out_or_revoked_may_not_write_whatever_the_prefix() {
    play(1, async |cluster| {
        let (locks, member) = (connect(&cluster).await, cluster.members()[0].port());
        let forced = locks.mutex("a").lock().await.unwrap();
        let still_held = find(&cluster.url(), &forced.handle());
        locks.force_unlock("a", forced.id()).await.unwrap();
        assert!(!writes(member, "x", &still_held));
        let absent = StillHeld::find(cluster.url(), &forced.handle()).await.unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::Lost, "{absent}");

        let revoked = locks.mutex("b").ttl(Duration::from_secs(60)).lock().await.unwrap();
        let still_held = find(&cluster.url(), &revoked.handle());
        for lease in super::operators::leases(&cluster) {
            cluster.ctl(&["lease", "revoke", &lease]).unwrap();
        }
        assert!(!writes(member, "x", &still_held));

        for prefix in ["elsewhere", "/my/app:1_x-.y"] {
            let url = format!("{}?prefix={prefix}", cluster.url());
            let locks = tenure_etcd::connect(&url).await.unwrap();
            let guard = locks.mutex("a").lock().await.unwrap();
            let still_held = find(&url, &guard.handle());
            assert!(writes(member, "x", &still_held), "{still_held}");
            let key = still_held.key();
            assert!(key.starts_with(format!("{prefix}/").as_bytes()), "{still_held}");
            guard.release().await.unwrap();
            assert!(!writes(member, "y", &still_held), "{still_held}");
        }
    });
}
