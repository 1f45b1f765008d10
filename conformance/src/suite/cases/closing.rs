//! Closing: `Locks::close` stops every holder before the next is served.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join;
use tenure_core::{Locks, Loss, Reason, Result};

use super::acts::{lost, needs};
use crate::Arena;

pub(crate) async fn a_lock_that_is_held_is_lost_before_another_is_served(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let guard = locks.mutex("k").ttl(arena.ttl() * 2).lock().await.unwrap();
    let held = guard.handle();
    let next = others.mutex("k");
    let mut waiting = Box::pin(next.lock());
    arena.stands_in_line("k", 2, &mut waiting).await;
    let clone: Locks = locks.clone();
    // Only the close, or its ttl, can free the lock.
    let mut kept = Some(guard);
    let served = async {
        let next = waiting.await.expect("the waiter is served");
        assert_eq!(lost(held.check()), Some(Loss::Closed), "two hold at once");
        // A close waits for a guard for as long as a request may take. Simulations keep it.
        if let Some(guard) = kept.take_if(|_| !arena.is_simulated()) {
            assert_eq!(lost(guard.release().await), Some(Loss::Closed));
        }
        next
    };
    let (next, ()) = arena.soon("the next is served", join(served, clone.close())).await;
    if let Some(guard) = kept {
        assert_eq!(lost(guard.check()), Some(Loss::Closed));
        assert_eq!(arena.soon("the loss is reported", guard.lost()).await, Loss::Closed);
        assert_eq!(lost(guard.release().await), Some(Loss::Closed));
    }
    next.check().unwrap();
    next.release().await.unwrap();
}

pub(crate) async fn a_guard_that_is_dropped_is_given_back_first(arena: &Arena) {
    let (locks, others) = (arena.locks().await, arena.locks().await);
    // The ttl is longer than this case.
    let guard = locks.mutex("k").ttl(Duration::from_secs(600)).lock().await.unwrap();
    let work = async {
        let stopped = guard.run(std::future::pending::<()>()).await;
        assert_eq!(lost(stopped), Some(Loss::Closed));
        drop(guard);
    };
    arena.soon("the store is let go of", join(work, locks.close())).await;
    let next = others.mutex("k").try_lock().await.unwrap();
    next.expect("the work has stopped, so its lock is free").release().await.unwrap();
}

pub(crate) async fn waiters_and_later_callers_are_refused(arena: &Arena) {
    needs!(arena, arena.profile().await.fair, "waiters stand in no line here");
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let guard = others.mutex("k").lock().await.unwrap();
    let mutex = locks.mutex("k");
    let mut watch = locks.watch("k").await.unwrap();
    let mut waiting = Box::pin(mutex.lock());
    arena.stands_in_line("k", 2, &mut waiting).await;
    // A close waits for a waiter that is not polled for as long as a request may take.
    let refused = async {
        if arena.is_simulated() {
            locks.close().await;
            waiting.await
        } else {
            join(waiting, locks.close()).await.0
        }
    };
    let refused = arena.soon("a waiter is refused", refused).await.unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::Closed), "{refused}");
    // A program that ignores the error must not spin.
    watch.next().await.expect_err("the watch is refused");
    assert!(watch.next().now_or_never().is_none(), "it pauses before it is refused again");
    is_refused_at_once(mutex.lock());
    is_refused_at_once(mutex.try_lock());
    is_refused_at_once(locks.line("k"));
    is_refused_at_once(locks.keys(""));
    is_refused_at_once(locks.break_ticket("k", guard.id()));
    is_refused_at_once(locks.force_unlock("k", guard.id()));
    is_refused_at_once(locks.sequence("k").next());
    is_refused_at_once(locks.counter("k").get());
    is_refused_at_once(locks.election("k").leader());
    is_refused_at_once(locks.watch("k"));
    guard.check().unwrap();
    guard.release().await.unwrap();
}

fn is_refused_at_once<T>(request: impl Future<Output = Result<T>>) {
    let late = request.now_or_never().expect("a late caller is refused without a wait");
    let refused = late.err().expect("a late caller is refused");
    assert_eq!(refused.reason(), Some(Reason::Closed), "{refused}");
}
