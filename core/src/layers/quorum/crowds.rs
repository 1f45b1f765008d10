//! Contention: the keys for which this client has seen other waiters.
//!
//! The first attempt of a ticket skips the queue, so a free lock costs no further request. A client
//! that releases a lock and takes it again at once would always win, because waiters pause between
//! two attempts. It therefore reads the queue beside its attempt, and joins the queue while others
//! are ahead.
//!
//! An observation is used once and expires after [`SEEN_LASTS`]. Otherwise a dead waiter could keep
//! clients away from a free lock.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::select;

use super::Quorum;
use super::poll::contained;
use crate::{Engine as _, Key, Time};

/// Minimum time between two reads of the queue.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Time for which a key counts as contended after a waiter was seen or this client released it.
const SEEN_LASTS: Duration = Duration::from_secs(1);
/// Above this number of keys the cache is cleared. Waiters may lose a turn.
const KEYS_MAX: usize = 1024;

#[derive(Default)]
pub(super) struct ContentionCache(Mutex<HashMap<Key, Crowd>>);

#[derive(Default)]
struct Crowd {
    /// When this client released it.
    left: Option<Time>,
    /// When the last read of the queue ended, or must end.
    looked: Option<Time>,
    /// When a waiter was seen, unless that was used since.
    seen: Option<Time>,
}

impl ContentionCache {
    /// Whether others wait, as far as known. The caller joins the queue then, and reads it.
    fn take(&self, key: &Key, now: Time) -> bool {
        let mut keys = self.keys();
        let Some(crowd) = keys.get_mut(key) else { return false };
        let seen = crowd.seen.take();
        let last = seen.map(|seen| seen.max(crowd.left.unwrap_or(seen)));
        last.is_some_and(|last| !now.has_reached(last.plus(SEEN_LASTS)))
    }

    /// Records whether a ticket waits.
    pub(super) fn note(&self, key: &Key, is_crowded: bool, now: Time) {
        let mut keys = self.keys();
        if is_crowded {
            entry(&mut keys, key).seen = Some(now);
        } else if let Some(crowd) = keys.get_mut(key) {
            crowd.seen = None;
        }
    }

    /// A read of the queue has ended.
    fn note_looked(&self, key: &Key, now: Time) {
        if let Some(crowd) = self.keys().get_mut(key) {
            crowd.looked = Some(now);
        }
    }

    /// This client released the lock.
    pub(super) fn note_left(&self, key: &Key, now: Time) {
        entry(&mut self.keys(), key).left = Some(now);
    }

    /// Whether to read the queue: this client had the lock within this time, and has not read the
    /// queue recently. One read is in flight at a time.
    fn is_due(&self, key: &Key, now: Time, within: Duration, takes: Duration) -> bool {
        let mut keys = self.keys();
        let Some(crowd) = keys.get_mut(key) else { return false };
        let is_over = |at: Option<Time>, after| at.is_none_or(|at| now.has_reached(at.plus(after)));
        let is_due = !is_over(crowd.left, within) && is_over(crowd.looked, LOOK_AGAIN);
        if is_due {
            crowd.looked = Some(now.plus(takes));
        }
        is_due
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<Key, Crowd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry<'a>(keys: &'a mut HashMap<Key, Crowd>, key: &Key) -> &'a mut Crowd {
    if keys.len() >= KEYS_MAX && !keys.contains_key(key) {
        keys.clear();
    }
    keys.entry(key.clone()).or_default()
}

impl Quorum {
    /// Whether a waiting ticket joins the queue before its attempt. If not, it may read the queue
    /// meanwhile.
    pub(super) fn goes_to_the_line(&self, key: &Key) -> bool {
        if self.turns.nodes.is_empty() {
            return false;
        }
        let now = self.host.now();
        if self.crowds.take(key, now) {
            return true;
        }
        // The first waiter pauses for less than this.
        if self.crowds.is_due(key, now, self.patience * 2, self.patience) {
            self.look_at_line(key.clone());
        }
        false
    }

    /// The read runs in the background.
    fn look_at_line(&self, key: Key) {
        let lines: Vec<_> = self.lines_for(&key).cloned().collect();
        let (crowds, host) = (self.crowds.clone(), self.host.clone());
        let late = host.sleep(self.patience);
        self.rest.add(Box::pin(async move {
            let looking = pin!(async {
                for node in lines {
                    if let Ok(line) = contained(node.engine.line(&key)).await {
                        crowds.note(&key, !line.is_empty(), host.now());
                        break;
                    }
                }
                crowds.note_looked(&key, host.now());
            });
            select(looking, late).await;
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::ContentionCache;
    use crate::{Key, Time};

    #[test]
    fn one_look_at_a_line_is_under_way_at_a_time() {
        let (crowds, key) = (ContentionCache::default(), Key::new("a").unwrap());
        let at = |ms| Time { boot_ns: 0, raw_ns: 0 }.plus(Duration::from_millis(ms));
        let (within, takes) = (Duration::from_secs(9), Duration::from_secs(1));
        let is_due = |ms| crowds.is_due(&key, at(ms), within, takes);
        assert!(!is_due(0), "this client never had it");
        crowds.note_left(&key, at(0));
        assert!(is_due(10));
        assert!(!is_due(900), "it has not ended");
        crowds.note_looked(&key, at(910));
        assert!(!is_due(950), "it has just ended");
        assert!(is_due(960));
        assert!(is_due(2_100), "the last was dropped before its end");
    }
}
