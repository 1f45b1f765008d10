//! Several locks as one: taken in one order, released together, lost together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure_core::{BoxFuture, ErrorKind, Loss};

use super::acts::{lost, refused};
use crate::Arena;

pub(crate) async fn opposite_orders_do_not_wait_for_each_other(arena: &Arena) {
    let inside = Arc::new([const { AtomicU32::new(0) }; 3]);
    let mut tasks: Vec<BoxFuture<()>> = Vec::new();
    for keys in [["a", "b"], ["b", "a"], ["b", "c"], ["c", "b"], ["c", "a"], ["a", "c"]] {
        let all = arena.locks().await.multi_lock(keys).renew_every(arena.beat());
        let (host, inside) = (arena.host(), inside.clone());
        tasks.push(Box::pin(async move {
            for _ in 0..5 {
                let guard = all.lock().await.expect("the lock is granted");
                let at = keys.map(|key| usize::from(key.as_bytes()[0] - b'a'));
                for at in at {
                    assert_eq!(inside[at].fetch_add(1, Ordering::SeqCst), 0, "two hold at once");
                }
                host.sleep(Duration::from_micros(50)).await;
                for at in at {
                    inside[at].fetch_sub(1, Ordering::SeqCst);
                }
                guard.release().await.expect("all locks were held");
            }
        }));
    }
    arena.together(tasks).await;
}

pub(crate) async fn a_name_given_twice_is_taken_once(arena: &Arena) {
    let locks = arena.locks().await;
    let all = locks.multi_lock(["b", "a", "b", "a"]);
    let guard = arena.soon("it does not wait for itself", all.lock()).await.unwrap();
    let keys: Vec<_> = guard.tokens().map(|(key, _)| key.as_str().to_owned()).collect();
    assert_eq!(keys, ["a", "b"]);
    for (one, (key, token)) in guard.guards().iter().zip(guard.tokens()) {
        assert_eq!((one.key(), one.token()), (key, token));
        assert_eq!(locks.line(key.as_str()).await.unwrap().len(), 1);
    }
    guard.check().unwrap();
    guard.release().await.unwrap();
    assert!(locks.keys("").await.unwrap().is_empty());
}

pub(crate) async fn all_or_none(arena: &Arena) {
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let taken = others.mutex("b").lock().await.unwrap();
    assert!(locks.multi_lock(["a", "b", "c"]).try_lock().await.unwrap().is_none());
    arena.soon("what was taken is given back", locks.flush()).await;
    let names: Vec<_> = others.keys("").await.unwrap();
    assert_eq!(names.iter().map(tenure_core::Key::as_str).collect::<Vec<_>>(), ["b"]);
    taken.release().await.unwrap();
    assert!(locks.multi_lock(["a", "b", "c"]).try_lock().await.unwrap().is_some());
}

pub(crate) async fn they_are_waited_for_under_one_time_limit(arena: &Arena) {
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let mutex = |key| others.mutex(key).renew_every(arena.beat());
    let (a, b) = (mutex("a").lock().await.unwrap(), mutex("b").lock().await.unwrap());
    let (before, limit) = (arena.now(), arena.ttl() * 2);
    let all = locks.multi_lock(["a", "b"]).renew_every(arena.beat());
    let waits = all.try_lock_for(limit);
    let frees = async {
        arena.pass(arena.ttl()).await;
        a.release().await.unwrap();
    };
    let both = futures_util::future::join(waits, frees);
    let (waited, ()) = arena.soon("the wait ends", both).await;
    arena.is_busy(waited);
    let took = before.until(arena.now());
    assert!(took >= limit / 100 * 95, "it waited {took:?} only");
    assert!(took < limit / 4 * 5 || !arena.is_simulated(), "each lock had its own limit: {took:?}");
    arena.soon("what was taken is given back", locks.flush()).await;
    drop(others.mutex("a").try_lock().await.unwrap().expect("the lock was released"));
    b.check().unwrap();
}

pub(crate) async fn the_loss_of_one_is_the_loss_of_all(arena: &Arena) {
    let (locks, operator) = (arena.locks().await, arena.locks().await);
    let guard = locks.multi_lock(["a", "b", "c"]).renew_every(arena.beat()).lock().await.unwrap();
    let id = guard.guards()[1].id();
    operator.force_unlock("b", id).await.unwrap();
    let stopped = arena.soon("the work is stopped", guard.run(std::future::pending::<()>())).await;
    assert_eq!(lost(stopped), Some(Loss::Broken));
    assert_eq!(arena.soon("the loss is reported", guard.lost()).await, Loss::Broken);
    assert_eq!(lost(guard.check()), Some(Loss::Broken));
    assert_eq!(lost(guard.release().await), Some(Loss::Broken));
    assert!(locks.keys("").await.unwrap().is_empty(), "a failed lock keeps no other locked");
}

pub(crate) async fn a_wait_for_all_that_is_dropped_releases_the_locks_that_it_had(arena: &Arena) {
    let (locks, others) = (arena.locks().await, arena.locks().await);
    let taken = others.mutex("b").lock().await.unwrap();
    let all = locks.multi_lock(["a", "b"]).renew_every(arena.beat());
    let mut waiting = Box::pin(all.lock());
    arena.stands_in_line("a", 1, &mut waiting).await;
    assert!(others.mutex("a").try_lock().await.unwrap().is_none(), "the first is taken");
    drop(waiting);
    arena.soon("what was taken is given back", locks.flush()).await;
    drop(others.mutex("a").try_lock().await.unwrap().expect("the lock was released"));
    assert_eq!(others.line("b").await.unwrap().len(), 1);
    taken.check().unwrap();
}

pub(crate) async fn all_of_nothing_is_refused(arena: &Arena) {
    let locks = arena.locks().await;
    assert_eq!(refused(locks.multi_lock([""; 0]).lock().await), ErrorKind::Invalid);
    assert_eq!(refused(locks.multi_lock([""; 0]).try_lock().await), ErrorKind::Invalid);
}
