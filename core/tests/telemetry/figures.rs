//! Each gauge falls when its holder goes, and each outcome of an attempt is counted.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::{Locks, Loss, Memory, MutexGuard, Result};

use crate::kit::{Cut, gauges, observed, spans, until_lost};

type Waiting = Pin<Box<dyn Future<Output = Result<MutexGuard>> + Send>>;

/// A caller that waits in the line.
fn waiting(locks: &Locks) -> Waiting {
    let mut waiting: Waiting = Box::pin(locks.mutex("k").lock());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    waiting
}

/// Held and waiting exclusive locks.
fn held_and_waiting() -> (f64, f64) {
    let all = gauges();
    let of = |name: &str| all.get(&format!("{name}{{memory}}{{exclusive}}")).copied();
    (of("tenure_held").unwrap_or(0.0), of("tenure_waiting").unwrap_or(0.0))
}

#[test]
fn held_and_waiting_fall_with_each_end_of_a_holder_and_of_a_waiter() {
    type End = fn(&Locks, MutexGuard, Waiting);
    let ends: [(&str, End); 5] = [
        ("a release and a cancelled waiter", |_, guard, waiting| {
            drop(waiting);
            assert_eq!(held_and_waiting(), (1.0, 0.0));
            block_on(guard.release()).unwrap();
        }),
        ("a drop and a served waiter", |_, guard, waiting| {
            drop(guard);
            let served = block_on(waiting).unwrap();
            assert_eq!(held_and_waiting(), (1.0, 0.0));
            drop(served);
        }),
        ("a loss by a break", |locks, guard, waiting| {
            drop(waiting);
            block_on(locks.break_ticket("k", guard.id())).unwrap();
            assert_eq!(block_on(guard.lost()), Loss::Broken);
            assert_eq!(held_and_waiting(), (0.0, 0.0), "the lost guard still exists");
        }),
        ("a removal that the release finds", |locks, guard, waiting| {
            drop(waiting);
            block_on(locks.force_unlock("k", guard.id())).unwrap();
            assert!(block_on(guard.release()).is_err());
        }),
        ("closed locks", |locks, guard, waiting| {
            let closing = std::thread::spawn({
                let locks = locks.clone();
                move || block_on(locks.close())
            });
            assert_eq!(block_on(guard.lost()), Loss::Closed);
            assert!(block_on(waiting).is_err());
            drop(guard);
            closing.join().unwrap();
        }),
    ];
    observed(|| {
        for (name, end) in ends {
            let locks = Locks::new(Memory::new());
            let guard = block_on(locks.mutex("k").lock()).unwrap();
            let waiting = waiting(&locks);
            assert_eq!(held_and_waiting(), (1.0, 1.0), "before {name}");
            end(&locks, guard, waiting);
            block_on(locks.flush());
            assert_eq!(held_and_waiting(), (0.0, 0.0), "after {name}");
        }
    });
}

#[test]
fn a_writer_that_becomes_a_reader_moves_to_the_other_gauge() {
    observed(|| {
        let locks = Locks::new(Memory::new());
        let reader = block_on(async {
            let writer = locks.rwlock("k").write().await.unwrap();
            writer.downgrade().await.unwrap()
        });
        let shared = || gauges()["tenure_held{memory}{shared}"];
        assert_eq!((held_and_waiting(), shared()), ((0.0, 0.0), 1.0));
        drop(reader);
        assert_eq!((held_and_waiting(), shared()), ((0.0, 0.0), 0.0));
    });
}

#[test]
fn a_leader_is_shown_with_its_term_until_it_resigns() {
    observed(|| {
        let locks = Locks::new(Memory::new());
        let election = locks.election("scheduler").metric_name("jobs");
        let shown = || {
            let all = gauges();
            (all["tenure_leader{jobs}"], all["tenure_leader_token{jobs}"])
        };
        let candidates = || gauges()["tenure_candidates{jobs}"];
        let leader = block_on(election.campaign()).unwrap();
        #[allow(clippy::cast_precision_loss, reason = "the token is far below 2^53")]
        let term = leader.token().get() as f64;
        assert_eq!(shown(), (1.0, term));
        assert!(block_on(election.try_campaign()).unwrap().is_none());
        let alone = ((1.0, term), 1.0);
        assert_eq!((shown(), candidates()), alone, "the other candidate neither leads nor waits");
        let mut follower = Box::pin(election.campaign());
        assert!(follower.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!((shown(), candidates()), ((1.0, term), 2.0), "one leads and one waits");
        drop(follower);
        drop(leader);
        assert_eq!((shown(), candidates()), ((0.0, 0.0), 0.0));
        assert!(!gauges().contains_key("tenure_leader{scheduler}"), "a key is no label");
    });
}

#[test]
fn each_outcome_of_an_attempt_is_counted_once() {
    let is_cut = Arc::new(AtomicBool::new(false));
    let (_, counted) = observed(|| {
        let locks = Locks::new(Cut(Memory::new(), is_cut.clone()));
        let locks =
            locks.with_metric_group(|key| if key.as_str() == "k" { "ours" } else { "others" });
        // A join without an answer may still happen for as long as its ttl.
        let mutex = locks.mutex("k").ttl(Duration::from_millis(600));
        let guard = block_on(mutex.lock()).unwrap();
        assert!(block_on(mutex.try_lock()).unwrap().is_none());
        assert!(block_on(mutex.try_lock_for(Duration::from_millis(1))).unwrap().is_none());
        drop(waiting(&locks));
        is_cut.store(true, Ordering::SeqCst);
        assert!(block_on(mutex.lock()).is_err());
        assert!(block_on(mutex.lock()).is_err());
        is_cut.store(false, Ordering::SeqCst);
        drop(guard);
        block_on(locks.flush());
        let closed = Locks::new(Memory::new()).with_metric_group(|_| "ours");
        block_on(closed.close());
        assert!(block_on(closed.mutex("k").lock()).is_err());
    });
    for (outcome, count) in [
        ("held", 1),
        ("busy", 1),
        ("timeout", 1),
        ("cancelled", 1),
        ("unavailable", 2),
        ("refused", 1),
    ] {
        let name = format!("tenure_attempts_total{{ours}}{{memory}}{{exclusive}}{{{outcome}}}");
        assert_eq!(counted.get(&name), Some(&count), "{outcome}: {counted:#?}");
    }
    assert!(counted["tenure_wait_seconds{ours}"] == 1, "{counted:#?}");
    assert!(counted["tenure_request_seconds{memory}{join}{unavailable}"] >= 2, "{counted:#?}");
    assert!(counted["tenure_request_seconds{memory}{join}{ok}"] >= 3, "{counted:#?}");
}

#[test]
fn an_outage_is_shown_with_the_tickets_that_it_keeps_from_leaving() {
    observed(|| {
        let is_cut = Arc::new(AtomicBool::new(false));
        let locks = Locks::new(Cut(Memory::new(), is_cut.clone()));
        let shown = || {
            let all = gauges();
            let up = all.iter().find(|(name, _)| name.starts_with("tenure_store_up{memory}"));
            (up.map(|(_, value)| *value), all.get("tenure_sweeper_pending{memory}").copied())
        };
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        assert_eq!(shown().0, Some(1.0));
        is_cut.store(true, Ordering::SeqCst);
        drop(guard);
        assert!(block_on(locks.line("k")).is_err());
        assert_eq!(shown(), (Some(0.0), Some(1.0)));
        is_cut.store(false, Ordering::SeqCst);
        block_on(locks.flush());
        assert_eq!(shown(), (Some(1.0), Some(0.0)));
    });
}

#[test]
fn renewals_show_their_slack_and_waiters_what_woke_them() {
    let (_, counted) = observed(|| {
        let locks = Locks::new(Memory::new());
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        block_on(guard.extend()).unwrap();
        let next = waiting(&locks);
        block_on(guard.release()).unwrap();
        let next = block_on(next).unwrap();
        block_on(locks.force_unlock("k", next.id())).unwrap();
        assert!(block_on(next.extend()).is_err());
        until_lost();
        drop(next);
        drop(tenure_core::Error::from(tenure_core::Stale { token: 1, newest: 2 }));
    });
    for name in [
        "tenure_renewal_slack_seconds{memory}",
        "tenure_wakeups_total{memory}{push}",
        "tenure_breaks_total{forced}",
        "tenure_fence_refusals_total",
    ] {
        assert_eq!(counted.get(name), Some(&1), "{name}: {counted:#?}");
    }
}

#[test]
fn a_lock_and_a_hold_are_spans_with_the_ticket_and_the_outcome() {
    observed(|| {
        let locks = Locks::new(Memory::new());
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        let (id, token) = (guard.id(), guard.token());
        let fields = format!("tenure.key=k tenure.kind=\"exclusive\" tenure.ticket={id}");
        let [lock] = &spans("lock")[..] else { panic!("{:?}", spans("lock")) };
        assert!(lock.starts_with(&format!("lock {fields}")), "{lock}");
        assert!(lock.contains(&format!("tenure.token={token}")), "{lock}");
        assert!(lock.ends_with("tenure.outcome=\"held\""), "{lock}");
        let hold = format!("hold {fields} tenure.token={token}");
        assert_eq!(spans("hold").concat(), hold);
        drop(waiting(&locks));
        assert!(spans("lock")[1].ends_with("tenure.outcome=\"cancelled\""));
        block_on(guard.release()).unwrap();
        assert_eq!(spans("hold"), [hold + " tenure.outcome=\"released\""]);
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        block_on(locks.break_ticket("k", guard.id())).unwrap();
        assert_eq!(block_on(guard.lost()), Loss::Broken);
        drop(guard);
        assert!(spans("hold")[1].ends_with("tenure.outcome=\"broken\""));
    });
}
