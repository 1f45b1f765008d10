//! A minority does not decide while a majority answers, and a dead store costs little.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_conformance::fault::Verb;
use tenure_core::*;

use super::moody::Mood;
use super::stage::{Counting, PATIENCE, TTL, hold, key, play, served, ticket, wait};

const UNWELL: [Mood; 3] = [Mood::Refuses, Mood::Fails, Mood::Hangs];

#[test]
fn one_bad_store_of_three_changes_nothing() {
    for mood in UNWELL {
        play(3, async |stage| {
            stage.stores[1].is(mood);
            stage.turns[1].is(mood);
            let (one, other) = (stage.client(), stage.client());
            let (first, second, third) = (ticket(), ticket(), ticket());
            hold(&one, &first).await;
            assert_eq!(other.join(&third, WaitMode::NoWait).await.unwrap(), None, "{mood:?}");
            wait(&other, &second).await;
            let line = one.line(&key()).await.unwrap();
            assert_eq!(line.len(), 2, "{mood:?}: {line:?}");
            assert_eq!(one.keys("").await.unwrap(), [key()]);
            assert!(one.renew(&first).await.unwrap().is_some());
            assert_eq!(one.leave(&first, LeaveMode::Now).await.unwrap(), LeaveOutcome::Holding);
            assert!(served(&other, &second).await.is_some());
        });
    }
}

#[test]
fn renewals_that_a_minority_refuses_lose_nothing() {
    play(3, async |stage| {
        let locks = stage.locks();
        let mutex = locks.mutex("k").ttl(Duration::from_secs(10));
        let guard = mutex.lock().await.unwrap();
        stage.stores[0].is_when(Verb::Renew, Mood::Refuses);
        for _ in 0..3 {
            guard.extend().await.unwrap();
        }
        // Two of three refuse: the lock is not renewed, and not lost early.
        stage.stores[1].is_when(Verb::Renew, Mood::Refuses);
        let error = guard.extend().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rejected);
        guard.check().unwrap();
        stage.stores[1].is(Mood::Well);
        stage.pass(Duration::from_secs(60)).await;
        guard.check().unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn a_refusal_of_a_majority_names_every_store() {
    play(3, async |stage| {
        stage.stores[0].is(Mood::Refuses);
        stage.stores[1].is(Mood::Fails);
        let locks = stage.locks();
        let error = locks.mutex("k").lock().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (
                ErrorKind::Unavailable,
                "fewer than 2 of 3 stores answered; s0: its memory is full; s1: it cannot be reached"
            )
        );
        stage.stores[1].is(Mood::Refuses);
        for error in [
            locks.mutex("k").lock().await.unwrap_err(),
            locks.line("k").await.unwrap_err(),
            locks.keys("").await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Rejected);
            let each = "; s0: its memory is full; s1: its memory is full";
            assert!(error.to_string().ends_with(each), "{error}");
        }
        stage.stores[0].is(Mood::Well);
        stage.stores[1].is(Mood::Well);
        locks.close().await;
        assert_eq!((stage.tickets().await, stage.places().await), (vec![0; 3], vec![0; 3]));
    });
}

#[test]
fn half_of_an_even_number_of_stores_is_no_majority() {
    play(4, async |stage| {
        let (one, other) = (stage.client(), stage.client());
        let first = ticket();
        hold(&one, &first).await;
        let line = one.line(&key()).await.unwrap();
        assert_eq!(line.len(), 1);
        for store in &stage.stores[2..] {
            store.is(Mood::Fails);
        }
        let refused = [
            one.renew(&first).await.unwrap_err(),
            one.line(&key()).await.unwrap_err(),
            one.keys("").await.unwrap_err(),
            other.join(&ticket(), WaitMode::NoWait).await.unwrap_err(),
            one.leave(&first, LeaveMode::Now).await.unwrap_err(),
        ];
        assert!(refused.iter().all(Error::is_retryable), "{refused:?}");
        let second = ticket();
        let error = other.join(&second, WaitMode::NoWait).await.unwrap_err();
        assert!(error.to_string().starts_with("fewer than 3 of 4 stores answered"), "{error}");
    });
}

#[test]
fn twenty_thousand_pairs_with_a_dead_store_leave_few_tasks_and_few_verbs() {
    for mood in [Mood::Fails, Mood::Hangs] {
        play(3, async |stage| {
            let counting = Counting::on(stage.world.process());
            let tasks = counting.tasks.clone();
            let client = Arc::new(stage.quorum(Arc::new(counting)));
            stage.stores[2].is(mood);
            let mut most = 0;
            for _ in 0..20_000 {
                let ticket = Ticket { ttl: Duration::from_secs(30), ..ticket() };
                hold(&client, &ticket).await;
                client.leave(&ticket, LeaveMode::Now).await.unwrap();
                most = most.max(tasks.load(Ordering::Relaxed));
            }
            stage.pass(PATIENCE * 2).await;
            let before = stage.stores[2].asked();
            stage.pass(Duration::from_secs(10)).await;
            let verbs_a_second = (stage.stores[2].asked() - before) / 10;
            println!("{mood:?}: {most} tasks at most, then {verbs_a_second} verbs a second");
            assert!(most <= 50, "{mood:?}: {most} tasks at a time");
            assert!(verbs_a_second <= 50, "{mood:?}: {verbs_a_second} verbs a second");
            // A ticket that may have expired is not removed again.
            stage.pass(TTL).await;
            let before = stage.stores[2].asked();
            stage.pass(TTL).await;
            assert_eq!((stage.stores[2].asked(), tasks.load(Ordering::Relaxed)), (before, 0));
        });
    }
}
