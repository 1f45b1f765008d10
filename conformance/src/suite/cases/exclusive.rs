//! Exclusive locks: the cases of a mutex, of the last permit of a semaphore, and of a writer.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::future::select;
use tenure_core::{BoxFuture, ErrorKind as Error, Loss, Result, TokenDurability};

use super::acts::{is_token_of, lost, refused};
use super::crowd::Crowd;
use super::kind::{Exclusive, Grip, Kind, Lock};
use crate::Arena;

/// Prepares the store for this kind of lock, or skips the case.
macro_rules! prepared {
    ($kind:ident, $arena:ident) => {
        match Exclusive::prepare($kind, $arena).await {
            Some(stage) => stage,
            None => return,
        }
    };
}

pub(crate) async fn at_most_one_of_a_hundred_holds(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let crowd = Crowd::of(arena, 1, stage.drained()).await;
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for _ in 0..4 {
        let locks = arena.locks().await;
        for _ in 0..25 {
            let (lock, crowd) = (crowd.terms(stage.of(&locks)), crowd.clone());
            tasks.push(Box::pin(async move { crowd.comes_and_goes(1, || lock.lock()).await }));
        }
    }
    arena.together(tasks).await;
    let tokens = crowd.tokens();
    assert_eq!(tokens.len(), 100);
    if arena.profile().await.fencing > TokenDurability::None {
        assert!(
            tokens.is_sorted_by(|before, after| before < after),
            "tokens grow as they are granted"
        );
    }
}

pub(crate) async fn a_held_lock_is_refused_to_every_caller(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let lock = stage.of(&locks);
    let guard = lock.lock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none(), "also to the holder");
    assert!(stage.of(&locks).try_lock().await.unwrap().is_none(), "also to the same client");
    assert!(stage.of(&others).try_lock().await.unwrap().is_none());
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(stage.of(&others).try_lock().await.unwrap().is_some());
}

pub(crate) async fn a_waiter_gets_the_lock_after_the_release(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let guard = stage.of(&arena.locks().await).lock().await.unwrap();
    let token = guard.number();
    let other = stage.of(&arena.locks().await);
    let mut waiting = Box::pin(other.lock());
    arena.not_now("it is held by two", &mut waiting).await;
    guard.release().await.unwrap();
    let next = arena.soon("the waiter gets the lock", waiting).await.unwrap();
    assert!(next.number() > token || arena.profile().await.fencing == TokenDurability::None);
    next.check().unwrap();
}

pub(crate) async fn a_dropped_guard_is_given_back(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let locks = arena.locks().await;
    for _ in 0..3 {
        drop(stage.of(&locks).lock().await.unwrap());
        arena.soon("what was dropped is given back", locks.flush()).await;
        assert_eq!(locks.line("k").await.unwrap().len(), stage.others());
    }
}

pub(crate) async fn a_guard_may_be_dropped_by_another_thread_and_in_a_panic(
    arena: &Arena,
    kind: Kind,
) {
    let stage = prepared!(kind, arena);
    let locks = arena.locks().await;
    let guard = stage.of(&locks).lock().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().expect("a guard can be dropped anywhere");
    arena.soon("what was dropped is given back", locks.flush()).await;
    let guard = stage.of(&locks).try_lock().await.unwrap().expect("the lock is free");
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("on purpose"));
    }));
    assert!(unwound.is_err());
    arena.soon("what was dropped is given back", locks.flush()).await;
    assert_eq!(locks.line("k").await.unwrap().len(), stage.others());
}

pub(crate) async fn no_time_to_wait_is_a_try(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let locks = arena.locks().await;
    let lock = stage.of(&locks);
    let guard = lock.try_lock_for(Duration::ZERO).await.unwrap().expect("the lock is free");
    let in_vain = arena.soon("a try is over soon", lock.try_lock_for(Duration::ZERO)).await;
    assert!(in_vain.unwrap().is_none());
    guard.release().await.unwrap();
    assert_eq!(locks.line("k").await.unwrap().len(), stage.others());
}

pub(crate) async fn waiting_in_vain_leaves_nothing_behind(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let guard = stage.of(&locks).lock().await.unwrap();
    for time in [Duration::from_nanos(1), Duration::from_millis(1), arena.beat()] {
        let waited = arena.soon("a wait ends", stage.of(&others).try_lock_for(time)).await;
        match waited {
            Ok(grip) => assert!(grip.is_none()),
            // In this short time, or on a busy machine, a store need not answer.
            Err(error) => {
                let may_be_slow = time < arena.beat() || !arena.is_simulated();
                assert!(error.is_retryable() && may_be_slow, "{error}");
            }
        }
        arena.soon("it is given back", others.flush()).await;
        assert_eq!(locks.line("k").await.unwrap().len(), stage.others() + 1);
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(stage.of(&locks).try_lock().await.unwrap().is_some(), "no other waiter got it");
}

pub(crate) async fn the_whole_wait_has_one_time_limit(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let guard = stage.of(&arena.locks().await).lock().await.unwrap();
    let (before, limit) = (arena.now(), arena.ttl() * 2);
    let waiting = stage.of(&arena.locks().await);
    let waited = arena.soon("a wait ends", waiting.try_lock_for(limit)).await;
    match waited {
        Ok(grip) => assert!(grip.is_none()),
        Err(error) => assert!(error.is_retryable() && !arena.is_simulated(), "{error}"),
    }
    let took = before.until(arena.now());
    assert!(took >= limit / 100 * 95, "the wait took only {took:?}");
    assert!(
        took <= limit * 2 || !arena.is_simulated(),
        "each renewal restarted the time limit: {took:?}"
    );
    guard.check().unwrap();
}

pub(crate) async fn any_time_limit_will_do(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await, arena.locks().await);
    for time in [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_secs(1 << 40)] {
        let guard = stage.of(&locks).try_lock_for(time).await.unwrap().expect("the lock is free");
        let other = stage.of(&others);
        let mut waiting = Box::pin(other.try_lock_for(time));
        arena.not_now("it is held by two", &mut waiting).await;
        guard.release().await.unwrap();
        let next = arena.soon("the waiter gets the lock", waiting).await.unwrap();
        next.expect("the time limit is long enough").release().await.unwrap();
    }
}

pub(crate) async fn a_wait_that_is_dropped_leaves_nothing_behind(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let guard = stage.of(&locks).lock().await.unwrap();
    let (dropped, last) = (stage.of(&others), stage.of(&locks));
    let mut waiting = Box::pin(dropped.lock());
    arena.not_now("it is held by two", &mut waiting).await;
    let mut behind = Box::pin(last.lock());
    arena.not_now("it is held by two", &mut behind).await;
    drop(waiting);
    arena.soon("what was dropped is given back", others.flush()).await;
    guard.release().await.unwrap();
    let next = arena.soon("the second waiter gets the lock", behind).await.unwrap();
    assert_eq!(locks.line("k").await.unwrap().len(), stage.others() + 1);
    next.release().await.unwrap();
}

/// Waits until the waiter has asked the store, which may be slow, and has nothing to do before its
/// next renewal. Its caller may do other work meanwhile. With an empty line one request is enough.
async fn waits<F>(arena: &Arena, length: usize, waiting: &mut F)
where
    F: Future<Output: Debug> + Unpin,
{
    if arena.profile().await.fair {
        arena.stands_in_line("k", length, waiting).await;
    } else {
        arena.not_now("it is held by two", waiting).await;
    }
}

/// Locks. On threads it calls again when the store did not answer, as a busy machine may not answer
/// within a brief ttl.
async fn lock_at_last(arena: &Arena, lock: &Lock) -> Result<Grip> {
    loop {
        match lock.lock().await {
            Err(error) if error.is_retryable() && !arena.is_simulated() => {}
            served => return served,
        }
    }
}

pub(crate) async fn a_waiter_outlives_its_own_ttl(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let guard = stage.of(&locks).lock().await.unwrap();
    let first = stage.brief(&others);
    let mut waiting = Box::pin(lock_at_last(arena, &first));
    waits(arena, stage.others() + 2, &mut waiting).await;
    let later = stage.of(&locks);
    let mut behind = Box::pin(lock_at_last(arena, &later));
    // On a busy machine the first may expire before its renewal. It joins again while it is polled.
    let mut both = Box::pin(async { select(&mut waiting, &mut behind).await.factor_first().0 });
    waits(arena, stage.others() + 3, &mut both).await;
    drop(both);
    for _ in 0..2 {
        arena.not_now("it is held by two", &mut waiting).await;
        arena.not_now("it is held by two", &mut behind).await;
        arena.pass(arena.ttl()).await;
    }
    guard.release().await.unwrap();
    if arena.is_simulated() && arena.profile().await.fair {
        let next = arena.soon("the first waiter gets the lock", waiting).await.unwrap();
        arena.not_now("the second waiter overtakes", &mut behind).await;
        next.release().await.unwrap();
    } else {
        drop(waiting);
    }
    arena.soon("the second waiter gets the lock", behind).await.unwrap();
}

pub(crate) async fn a_release_says_whether_it_was_held(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    stage.of(&locks).lock().await.unwrap().release().await.expect("the lock was held");
    let guard = stage.of(&locks).lock().await.unwrap();
    operator.force_unlock("k", guard.id()).await.unwrap();
    let next = stage.of(&operator).try_lock().await.unwrap().expect("the lock is free");
    assert_eq!(lost(guard.release().await), Some(Loss::Broken));
    next.release().await.expect("the releases of others do not end it");
}

pub(crate) async fn a_late_drop_does_not_free_the_next_holder(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let guard = stage.of(&locks).lock().await.unwrap();
    operator.force_unlock("k", guard.id()).await.unwrap();
    let next = stage.of(&operator).try_lock().await.unwrap().expect("the lock is free");
    drop(guard);
    arena.soon("what was dropped is given back", locks.flush()).await;
    assert!(stage.of(&locks).try_lock().await.unwrap().is_none());
    next.check().unwrap();
    next.release().await.unwrap();
}

pub(crate) async fn a_release_is_no_loss(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let guard = stage.of(&arena.locks().await).lock().await.unwrap();
    let held = guard.handle();
    let mut lost = Box::pin(held.lost());
    arena.not_now("a loss is reported", &mut lost).await;
    guard.release().await.unwrap();
    arena.not_now("a release is reported as a loss", &mut lost).await;
    assert_eq!(refused(held.check()), Error::Invalid);
    let dropped = stage.of(&arena.locks().await).lock().await.unwrap();
    let held = dropped.handle();
    drop(dropped);
    arena.not_now("a drop is reported as a loss", &mut Box::pin(held.lost())).await;
    assert_eq!(refused(held.extend().await), Error::Invalid, "a view renews nothing that is over");
}

pub(crate) async fn a_loss_is_reported_to_all_and_is_final(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let guard = stage.of(&locks).lock().await.unwrap();
    let held = guard.handle();
    operator.force_unlock("k", guard.id()).await.unwrap();
    let both = futures_util::future::join(guard.lost(), held.lost());
    let losses = arena.soon("a loss is reported", both).await;
    assert_eq!(losses, (Loss::Broken, Loss::Broken));
    assert_eq!(arena.soon("a later caller gets the loss too", held.lost()).await, Loss::Broken);
    assert_eq!(lost(guard.extend().await), Some(Loss::Broken), "a renewal does not revive it");
    assert_eq!(lost(guard.set_note("x").await), Some(Loss::Broken));
    assert_eq!(lost(guard.run(async {}).await), Some(Loss::Broken));
    assert_eq!(lost(guard.release().await), Some(Loss::Broken));
    assert_eq!(lost(held.check()), Some(Loss::Broken));
    assert_eq!(arena.soon("the loss stays", held.lost()).await, Loss::Broken);
}

pub(crate) async fn it_is_renewed_for_as_long_as_it_is_held(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let guard = stage.brief(&locks).lock().await.unwrap();
    for _ in 0..4 {
        arena.pass(arena.ttl() / 2).await;
        let other = stage.of(&others).try_lock().await.unwrap();
        if let Err(error) = guard.check() {
            assert!(!arena.is_simulated(), "the lock was not renewed: {error}");
            return arena.skip("this machine stood still for a whole ttl");
        }
        assert!(other.is_none(), "two hold at once");
    }
    assert!(guard.remaining().is_none_or(|left| left <= arena.ttl()));
    guard.release().await.unwrap();
}

pub(crate) async fn by_hand_it_ends_unless_it_is_extended(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    if !arena.lives_by_ttl().await {
        return arena.skip("tickets do not end by a ttl here");
    }
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let mut renewed = arena.now();
    let guard = stage.of(&locks).ttl(arena.ttl() * 2).manual_renewal().lock().await.unwrap();
    for _ in 0..3 {
        arena.pass(arena.ttl()).await;
        let before = arena.now();
        if let Err(error) = guard.extend().await {
            let stood_still = renewed.until(arena.now()) >= arena.ttl() / 10 * 19;
            assert!(stood_still && !arena.is_simulated(), "{error}");
            return arena.skip("this machine stood still for a whole ttl");
        }
        guard.check().expect("the renewal was in time");
        renewed = before;
    }
    assert!(stage.of(&others).try_lock().await.unwrap().is_none());
    assert_eq!(arena.soon("the lock expires", guard.lost()).await, Loss::Expired);
    assert_eq!(lost(guard.extend().await), Some(Loss::Expired));
    arena.soon("the next gets it", stage.of(&others).lock()).await.unwrap();
}

pub(crate) async fn it_is_lost_when_it_was_held_for_long_enough(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let guard = stage.of(&locks).max_hold(arena.ttl()).lock().await.unwrap();
    let other = stage.of(&others);
    let mut waiting = Box::pin(other.lock());
    arena.not_now("it is held by two", &mut waiting).await;
    assert_eq!(arena.soon("the lock is lost", guard.lost()).await, Loss::HeldTooLong);
    assert_eq!(lost(guard.release().await), Some(Loss::HeldTooLong));
    arena.soon("the waiter gets the lock", waiting).await.unwrap();
    assert_eq!(refused(stage.of(&locks).max_hold(Duration::ZERO).lock().await), Error::Invalid);
}

pub(crate) async fn other_terms_make_no_other_lock(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let long = Duration::from_secs(7200);
    let terms = |lock: Lock| {
        [
            lock.clone().ttl(long),
            lock.clone().ttl(arena.ttl() * 3),
            lock.clone().note("another"),
            lock.clone().manual_renewal().max_hold(long),
            lock,
        ]
    };
    for mine in terms(stage.of(&locks)) {
        let guard = mine.lock().await.unwrap();
        for theirs in terms(stage.of(&others)) {
            assert!(theirs.try_lock().await.unwrap().is_none(), "two hold at once");
        }
        guard.release().await.unwrap();
    }
}

pub(crate) async fn a_note_changes_in_place(arena: &Arena, kind: Kind) {
    let stage = prepared!(kind, arena);
    let (locks, others) = (arena.locks().await.with_owner("me").unwrap(), arena.locks().await);
    let guard = stage.of(&locks).note("before").lock().await.unwrap();
    let seen = async || {
        let line = others.line("k").await.unwrap();
        let entry = line.into_iter().find(|entry| entry.id == guard.id()).unwrap();
        assert_eq!(&*entry.owner, "me");
        assert!(is_token_of(arena, entry.number, guard.number()).await);
        entry.note
    };
    assert_eq!(&*seen().await, "before");
    guard.set_note("after").await.unwrap();
    assert_eq!(&*seen().await, "after");
    arena.pass(arena.beat() * 2).await;
    assert_eq!(&*seen().await, "after", "renewals carry it");
    let long = "x".repeat(tenure_core::NOTE_BYTES_MAX + 1);
    assert_eq!(refused(guard.set_note(long).await), Error::Invalid);
    assert_eq!(&*seen().await, "after");
}
