//! A ticket in the line cannot be read, because another version of Tenure wrote it or it was
//! modified.
#![allow(clippy::missing_panics_doc, reason = "a story that fails panics")]

use std::time::Duration;

use tenure_core::{Locks, Loss};

use crate::fault::stage::soon;

/// A holder with manual renewal is found by `other`, and asked to leave, although `trouble` puts an
/// unreadable ticket behind it in the line of `k`.
pub async fn a_stranger_hides_nobody_ahead_of_it(
    locks: &Locks,
    other: &Locks,
    ttl: Duration,
    trouble: impl AsyncFnOnce(),
) {
    let guard = locks.mutex("k").ttl(ttl).manual_renewal().lock().await.unwrap();
    trouble().await;
    let line = other.line("k").await.unwrap();
    assert_eq!(line.iter().map(|entry| entry.id).collect::<Vec<_>>(), [guard.id()]);
    let held = guard.handle();
    let lost = tokio::spawn(async move { held.lost().await });
    other.break_ticket("k", guard.id()).await.unwrap();
    assert_eq!(soon("the holder is asked to leave", lost).await.unwrap(), Loss::Broken);
}
