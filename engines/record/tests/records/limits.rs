//! The limits of operations in number and time, also of those whose callers have gone.

use std::pin::pin;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use tenure_core::{Engine as _, ErrorKind, Key, LeaveMode, Runtime as _, WaitMode};

use crate::steps::{CALLERS, Stage, is_pending, play, ticket};
use crate::store::CALLS_MAX;

/// Longer than a task takes that has nothing to wait for.
const MOMENT: Duration = Duration::from_millis(1);
/// Maximum operations at a time that are not steps on lines.
const OTHERS_MAX: usize = CALLS_MAX / 2;

#[test]
fn an_operation_whose_caller_has_gone_goes_on_and_keeps_its_room() {
    play(true, async |Stage { store, host, client }: Stage| {
        let key = Key::new("k").unwrap();
        store.freeze(true);
        for _ in 0..CALLERS {
            let mut add = pin!(client.add(&key, 1, None));
            assert!(is_pending(&host, &mut add).await);
        }
        assert_eq!(store.adds.load(SeqCst), OTHERS_MAX, "the others had no room");
        assert_eq!(store.in_flight.load(SeqCst), OTHERS_MAX);
        store.freeze(false);
        host.sleep(MOMENT).await;
        let sum = client.add(&key, 1, None).await.unwrap().value;
        assert_eq!(sum, OTHERS_MAX as u64 + 1, "they were carried out without their callers");
    });
}

#[test]
fn additions_that_hang_leave_room_for_the_renewal_of_a_lock() {
    play(true, async |Stage { store, host, client }: Stage| {
        let holder = ticket("held");
        client.join(&holder, WaitMode::Wait).await.unwrap().unwrap();
        store.adds_hang.store(true, SeqCst);
        let key = Key::new("k").unwrap();
        for _ in 0..CALLERS {
            let mut add = pin!(client.add(&key, 1, None));
            assert!(is_pending(&host, &mut add).await);
        }
        assert_eq!(store.in_flight.load(SeqCst), OTHERS_MAX);
        client.renew(&holder).await.unwrap().expect("it holds");
        assert_eq!(store.in_flight.load(SeqCst), OTHERS_MAX, "they still hang");
    });
}

#[test]
fn an_operation_without_a_caller_ends_when_its_time_is_over() {
    play(true, async |Stage { store, host, client }: Stage| {
        let key = Key::new("k").unwrap();
        store.freeze(true);
        let mut add = pin!(client.add(&key, 1, None));
        assert!(is_pending(&host, &mut add).await);
        assert_eq!(store.in_flight.load(SeqCst), 1);
        host.sleep(client.guarantees().answers_within).await;
        host.sleep(MOMENT).await;
        assert_eq!(store.in_flight.load(SeqCst), 0);
    });
}

#[test]
fn no_step_goes_on_when_its_newest_request_is_late() {
    play(true, async |Stage { store, host, client }: Stage| {
        let within = client.guarantees().answers_within;
        store.freeze(true);
        let (first, second) = (ticket("k"), ticket("k"));
        let mut early = pin!(client.leave(&first, LeaveMode::Now));
        assert!(is_pending(&host, &mut early).await);
        host.sleep(within / 2).await;
        // It waits for the next step on this line.
        let mut late = pin!(client.leave(&second, LeaveMode::Now));
        assert!(is_pending(&host, &mut late).await);
        assert_eq!(early.await.unwrap_err().kind(), ErrorKind::Unavailable);
        host.sleep(MOMENT).await;
        assert_eq!((store.steps.load(SeqCst), store.in_flight.load(SeqCst)), (2, 1));
        assert_eq!(late.await.unwrap_err().kind(), ErrorKind::Unavailable);
        host.sleep(MOMENT).await;
        assert_eq!(store.in_flight.load(SeqCst), 0, "all callers have their answers");
    });
}
