//! Some of several servers die, freeze, and come back.
#![allow(clippy::missing_panics_doc, reason = "a story that fails panics")]

use std::time::{Duration, Instant};

use tenure_core::{ErrorKind, Locks, Loss, MutexGuard};

use crate::fault::stage::{at_last, soon, until_line};

/// The ttl of locks that must survive the fault, as a multiple of the shortest ttl.
const LONG: u32 = 10;

/// A lock survives the fault of a server. Other clients see meanwhile that it is held, and its
/// waiter is served afterwards.
pub async fn a_lock_outlives(one: Locks, two: Locks, ttl: Duration, trouble: impl FnOnce()) {
    let guard = one.mutex("k").ttl(ttl * LONG).lock().await.unwrap();
    let waiter = tokio::spawn(wait(two.clone(), ttl * LONG));
    until_line(&one, "k", 2).await;
    trouble();
    let others = at_last("others are answered", async || two.mutex("k").try_lock().await).await;
    assert!(others.is_none(), "it is held");
    guard.check().expect("it is still held");
    let token = guard.token();
    guard.release().await.unwrap();
    let next = soon("the waiter is served", waiter).await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

/// The holder is notified of the loss of the majority. When the majority is back, the next token is
/// higher.
pub async fn the_loss_of_the_majority_is_told(
    locks: Locks,
    ttl: Duration,
    stand_still: impl FnOnce(),
    go_on: impl FnOnce(),
) {
    let guard = locks.mutex("k").ttl(ttl).lock().await.unwrap();
    let token = guard.token();
    stand_still();
    let loss = soon("the holder is notified", guard.lost()).await;
    assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
    go_on();
    assert_eq!(guard.check().unwrap_err().kind(), ErrorKind::Lost);
    let next = soon("it is free again", wait(locks, ttl)).await;
    assert!(next.token() > token);
    assert_eq!(guard.release().await.unwrap_err().kind(), ErrorKind::Lost);
    next.check().unwrap();
}

/// The servers stop answering: the holder is notified before its lock can be granted to the next,
/// and no late answer revives it.
pub async fn a_holder_is_told_before_its_lock_is_given_away(
    holder: Locks,
    other: Locks,
    ttl: Duration,
    stand_still: impl FnOnce(),
    go_on: impl FnOnce(),
) {
    let guard = holder.mutex("k").ttl(ttl).lock().await.unwrap();
    let waiter = tokio::spawn(async move { (wait(other, ttl * LONG).await, Instant::now()) });
    until_line(&holder, "k", 2).await;
    stand_still();
    soon("the holder is notified", guard.lost()).await;
    let notified = Instant::now();
    go_on();
    let (next, served) = soon("the waiter is served", waiter).await.unwrap();
    assert!(next.token() > guard.token());
    assert!(served > notified, "the next was served {:?} too soon", notified - served);
    assert!(guard.check().is_err(), "no late answer revives it");
}

/// Waits in line while the servers may not answer. A ticket that was requested meanwhile may have
/// ended with its session.
async fn wait(locks: Locks, ttl: Duration) -> MutexGuard {
    loop {
        match locks.mutex("k").ttl(ttl).lock().await {
            Ok(guard) => return guard,
            Err(error) => {
                assert!(error.is_retryable() || error.kind() == ErrorKind::Lost, "{error}");
            }
        }
    }
}
