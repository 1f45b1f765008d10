//! Every loss of a guard is counted and logged, with its cause, and so is a store that is away.

#![cfg(feature = "metrics")]

mod figures;
mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::{Locks, Loss, Memory};

use crate::kit::{Cut, observed, until_lost};

/// The one log line about a loss.
fn loss_in(log: &[String]) -> &str {
    let losses: Vec<_> = log.iter().filter(|line| line.contains("a lock was lost")).collect();
    assert_eq!(losses.len(), 1, "a loss is logged once: {log:#?}");
    losses[0]
}

fn loses(cause: &str, reason: Loss, test: impl FnOnce(&Locks)) {
    let (log, counted) = observed(|| {
        test(&Locks::new(Memory::new()));
        until_lost();
    });
    let line = loss_in(&log);
    assert!(line.starts_with("WARN ") && line.contains("key=k"), "{line}");
    assert!(line.contains(&format!("reason={reason}")), "{line}");
    assert!(line.contains("token=") && line.contains("held_for="), "{line}");
    assert_eq!(counted[&format!("tenure_losses_total{{{cause}}}")], 1, "{counted:?}");
    assert_eq!(counted["tenure_hold_seconds"], 1, "{counted:?}");
}

#[test]
fn a_polite_break_is_counted_and_logged() {
    loses("broken", Loss::Broken, |locks| {
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        block_on(locks.break_ticket("k", guard.id())).unwrap();
        assert_eq!(block_on(guard.lost()), Loss::Broken);
    });
}

#[test]
fn a_ticket_that_is_gone_is_counted_by_whichever_finds_out_first() {
    loses("broken", Loss::Broken, |locks| {
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        block_on(locks.force_unlock("k", guard.id())).unwrap();
        assert!(block_on(guard.extend()).is_err(), "a renewal finds out");
        assert!(block_on(guard.release()).is_err(), "and the release reports it again");
    });
    // Renewed by hand and not watched: only the release asks the store.
    loses("broken", Loss::Broken, |locks| {
        let guard = block_on(locks.mutex("k").manual_renewal().lock()).unwrap();
        block_on(locks.force_unlock("k", guard.id())).unwrap();
        assert_eq!(block_on(guard.release()).unwrap_err().loss(), Some(Loss::Broken));
    });
    loses("broken", Loss::Broken, |locks| {
        let guard = block_on(locks.mutex("k").manual_renewal().lock()).unwrap();
        block_on(locks.force_unlock("k", guard.id())).unwrap();
        drop(guard);
        block_on(locks.flush());
    });
}

#[test]
fn a_hold_that_is_too_long_and_one_of_closed_locks_are_counted_and_logged() {
    loses("held_too_long", Loss::HeldTooLong, |locks| {
        let limit = Duration::from_millis(20);
        let guard = block_on(locks.mutex("k").max_hold(limit).lock()).unwrap();
        assert_eq!(block_on(guard.lost()), Loss::HeldTooLong);
    });
    loses("closed", Loss::Closed, |locks| {
        let guard = block_on(locks.mutex("k").lock()).unwrap();
        let closing = std::thread::spawn({
            let locks = locks.clone();
            move || block_on(locks.close())
        });
        assert_eq!(block_on(guard.lost()), Loss::Closed);
        assert!(guard.check().is_err());
        drop(guard);
        closing.join().unwrap();
    });
}

#[test]
fn a_store_that_is_away_is_logged_once_and_so_is_its_return() {
    let (log, counted) = observed(|| {
        let cut = Arc::new(AtomicBool::new(false));
        let locks = Locks::new(Cut(Memory::new(), cut.clone()));
        let mutex = locks.mutex("k").ttl(Duration::from_millis(600));
        let guard = block_on(mutex.lock()).unwrap();
        cut.store(true, Ordering::SeqCst);
        assert_eq!(block_on(guard.lost()), Loss::Unreachable);
        until_lost();
        for _ in 0..10 {
            assert!(block_on(locks.line("k")).is_err());
        }
        cut.store(false, Ordering::SeqCst);
        for _ in 0..10 {
            block_on(locks.line("k")).unwrap();
        }
    });
    assert!(loss_in(&log).contains(&format!("reason={}", Loss::Unreachable)));
    assert_eq!(counted["tenure_losses_total{unreachable}"], 1);
    let of = |level: &str| log.iter().filter(|line| line.starts_with(level)).count();
    assert_eq!(of("WARN"), 2, "the loss and the store: {log:#?}");
    assert!(log.iter().any(|line| line.contains("the store is unreachable")), "{log:#?}");
    assert!(
        log.iter().any(|line| line.starts_with("INFO") && line.contains("is back")),
        "{log:#?}"
    );
    assert_eq!((of("INFO"), of("DEBUG")), (1, 0), "{log:#?}");
}

#[test]
fn waits_holds_renewals_and_hand_overs_are_counted_and_a_release_is_no_loss() {
    let (log, counted) = observed(|| {
        let locks = Locks::new(Memory::new());
        let first = block_on(locks.mutex("k").lock()).unwrap();
        let mut waiting = Box::pin(locks.mutex("k").lock());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        block_on(first.extend()).unwrap();
        block_on(first.release()).unwrap();
        drop(block_on(waiting).unwrap());
        block_on(locks.flush());
    });
    assert!(log.is_empty(), "{log:#?}");
    assert_eq!(counted.keys().filter(|name| name.contains("losses")).count(), 0, "{counted:?}");
    for (name, count) in
        [("tenure_wait_seconds", 2), ("tenure_hold_seconds", 2), ("tenure_handovers_total", 1)]
    {
        assert_eq!(counted[name], count, "{name}: {counted:?}");
    }
    assert!(counted["tenure_renewals_total{kept}"] >= 1, "{counted:?}");
}
