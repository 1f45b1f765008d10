//! What an engine is told to do and does is counted, and told to `tracing`.

#![cfg(feature = "metrics")]

use std::sync::Arc;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use tenure_core::blocking::block_on;
use tenure_core::wrap::Traced;
use tenure_core::{
    Engine as _, Key, Leave, Left, Locks, Memory, Patience, Share, Standing, SystemClock, Ticket,
};

/// What was counted since this was last asked, in order.
fn counted(snapshotter: &Snapshotter) -> Vec<(String, u64)> {
    let mut counted = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let key = key.key();
        let labels: Vec<_> = key.labels().map(|label| format!("{{{}}}", label.value())).collect();
        let count = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Histogram(values) => values.len() as u64,
            DebugValue::Gauge(_) => 0,
        };
        counted.push((format!("{}{}", key.name(), labels.concat()), count));
    }
    counted.retain(|(_, count)| *count > 0);
    counted.sort();
    counted
}

fn are<const N: usize>(expected: [(&str, u64); N]) -> Vec<(String, u64)> {
    expected.map(|(name, count)| (name.to_owned(), count)).into()
}

#[test]
fn a_traced_engine_counts_waits_holds_renewals_losses_and_hand_overs() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let memory = Memory::new();
        let operator = Locks::new(memory.clone()).blocking();
        let locks = Locks::new(memory).traced().blocking();
        let first = locks.mutex("a").lock().unwrap();
        let mutex = locks.mutex("a").into_inner();
        let mut waiting = Box::pin(mutex.lock());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        first.extend().unwrap();
        first.release().unwrap();
        let second = block_on(waiting).unwrap();
        operator.force_out("a", second.id()).unwrap();
        assert!(block_on(second.extend()).is_err());
    });
    assert_eq!(
        counted(&snapshotter),
        are([
            ("tenure_handovers_total", 1),
            ("tenure_hold_seconds", 2),
            ("tenure_losses_total", 1),
            ("tenure_renewals_total{kept}", 1),
            ("tenure_renewals_total{lost}", 1),
            ("tenure_wait_seconds", 2),
        ])
    );
}

#[test]
fn a_wait_is_counted_when_it_is_over_and_not_when_a_waiter_gives_a_sign_of_life() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let engine = Traced::new(Memory::new(), Arc::new(SystemClock));
        let ticket = || Ticket::new(Key::new("a").unwrap(), Share::WHOLE);
        let (first, second) = (ticket(), ticket());
        let renewed = || block_on(engine.renew(&second)).unwrap().unwrap().standing;

        block_on(engine.join(&first, Patience::Wait)).unwrap();
        assert_eq!(counted(&snapshotter), are([("tenure_wait_seconds", 1)]));
        block_on(engine.join(&second, Patience::Wait)).unwrap();
        assert_eq!(counted(&snapshotter), are([]));
        assert_eq!(renewed(), Standing::Waiting);
        assert_eq!(counted(&snapshotter), are([("tenure_renewals_total{kept}", 1)]));
        assert_eq!(block_on(engine.leave(&first, Leave::Now)).unwrap(), Left::Holding);
        assert_eq!(counted(&snapshotter), are([("tenure_hold_seconds", 1)]));
        assert_eq!(renewed(), Standing::Holding);
        assert_eq!(
            counted(&snapshotter),
            are([
                ("tenure_handovers_total", 1),
                ("tenure_renewals_total{kept}", 1),
                ("tenure_wait_seconds", 1),
            ])
        );
    });
}

#[test]
fn traced_locks_have_the_same_owner() {
    let locks = Locks::new(Memory::new()).owned_by("worker-7").unwrap().traced().blocking();
    let _guard = locks.mutex("a").ttl(Duration::from_secs(9)).lock().unwrap();
    assert_eq!(&*locks.line("a").unwrap()[0].0.owner, "worker-7");
}
