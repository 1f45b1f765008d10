//! Limits the tickets of one client that wait in one line, if its callers give up faster than the
//! store serves them.
//!
//! A ticket whose caller gave up costs the store a join and a leave. If most callers give up, the
//! store does little else. A key may therefore have a limit, like the congestion window of a
//! sender. It is set to half of the tickets in the line when a caller gives up while
//! [`LEAVING_MAX`] others are leaving. It grows by one after as many tickets were served as it
//! allows, and is removed when no caller waits for it. Callers beyond the limit wait in this
//! process, and cost the store nothing if they give up there.

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use tokio::sync::oneshot;

use crate::sync::Mutex;
use crate::{Key, Runtime};

/// Tickets of one line that may be leaving before a limit is set.
const LEAVING_MAX: usize = 8;

/// The limits of one client.
pub(crate) struct Admission {
    runtime: Arc<dyn Runtime>,
    lines: Mutex<HashMap<Key, Line>>,
}

/// The tickets of one client in one line.
#[derive(Default)]
struct Line {
    /// Tickets that join, wait, or were dropped and have not left yet.
    inside: usize,
    /// Those of them that were dropped.
    leaving: usize,
    limit: Option<usize>,
    /// Tickets that were served since the limit changed.
    served: usize,
    /// Callers that wait until another ticket is served or has left.
    held_back: Vec<oneshot::Sender<Slot>>,
}

impl Line {
    fn has_room(&self) -> bool {
        self.limit.is_none_or(|limit| self.inside < limit)
    }
}

/// The permission for one ticket to wait in a line. Dropping it admits the next caller.
pub(crate) struct Slot {
    admission: Arc<Admission>,
    key: Key,
    leaves: bool,
}

impl Admission {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Arc<Self> {
        Arc::new(Self { runtime, lines: Mutex::default() })
    }

    /// Waits until one more ticket may join this line. Callers that wait are admitted in random
    /// order: the one that waited longest is the one that gives up next.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives the slot to the next caller.
    pub(crate) async fn admit(self: &Arc<Self>, key: &Key) -> Slot {
        loop {
            let admitted = {
                let mut lines = self.lines();
                let line = lines.entry(key.clone()).or_default();
                if line.has_room() {
                    line.inside += 1;
                    return self.slot(key);
                }
                let (admit, admitted) = oneshot::channel();
                line.held_back.push(admit);
                admitted
            };
            if let Ok(slot) = admitted.await {
                return slot;
            }
        }
    }

    fn slot(self: &Arc<Self>, key: &Key) -> Slot {
        Slot { admission: self.clone(), key: key.clone(), leaves: false }
    }

    /// Frees one place in this line, and gives it to the next caller.
    fn free(self: &Arc<Self>, key: &Key, leaves: bool) {
        let mut lines = self.lines();
        let Some(line) = lines.get_mut(key) else { return };
        line.inside -= 1;
        line.leaving -= usize::from(leaves);
        line.held_back.retain(|caller| !caller.is_closed());
        let mut admitted = Vec::new();
        while line.has_room() && !line.held_back.is_empty() {
            let random = usize::try_from(self.runtime.random() >> 32).unwrap_or(0);
            let nth = random % line.held_back.len();
            line.inside += 1;
            admitted.push(line.held_back.swap_remove(nth));
        }
        if line.inside == 0 {
            lines.remove(key);
        }
        drop(lines);
        for caller in admitted {
            // A caller that gave up meanwhile drops the slot, which admits the next one.
            let _ = caller.send(self.slot(key));
        }
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Key, Line>> {
        self.lines.lock()
    }
}

impl Slot {
    /// The ticket is served.
    pub(crate) fn served(self) {
        let mut lines = self.admission.lines();
        if let Some(line) = lines.get_mut(&self.key)
            && let Some(limit) = &mut line.limit
        {
            line.served += 1;
            line.held_back.retain(|caller| !caller.is_closed());
            if line.held_back.is_empty() {
                line.limit = None;
            } else if line.served >= *limit {
                (*limit, line.served) = (*limit + 1, 0);
            }
        }
        drop(lines);
    }

    /// The caller gave the ticket up, which has yet to leave. Tickets that were admitted before the
    /// limit fell do not lower it again.
    pub(crate) fn gave_up(&mut self) {
        let mut lines = self.admission.lines();
        let Some(line) = lines.get_mut(&self.key) else { return };
        self.leaves = true;
        line.leaving += 1;
        let is_crowd = |limit| line.inside <= limit;
        if line.limit.map_or(line.leaving > LEAVING_MAX, is_crowd) {
            (line.limit, line.served) = (Some((line.inside / 2).max(1)), 0);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.admission.free(&self.key, self.leaves);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::background::fake_runtime::FakeRuntime;

    fn key() -> Key {
        Key::new("k").unwrap()
    }

    fn admission() -> Arc<Admission> {
        Admission::new(Arc::new(FakeRuntime::default()))
    }

    fn inside(admission: &Arc<Admission>, count: usize) -> Vec<Slot> {
        let slot = |_| admission.admit(&key()).now_or_never().expect("there is room");
        (0..count).map(slot).collect()
    }

    /// As many gave up as set a limit of half of them.
    fn limited(admission: &Arc<Admission>) -> Vec<Slot> {
        let mut slots = inside(admission, LEAVING_MAX + 1);
        slots.iter_mut().for_each(Slot::gave_up);
        slots
    }

    #[test]
    fn without_callers_who_give_up_there_is_no_limit() {
        let admission = admission();
        let mut slots = inside(&admission, 1000);
        slots.iter_mut().take(LEAVING_MAX).for_each(Slot::gave_up);
        slots.extend(inside(&admission, 1));
        slots.into_iter().for_each(Slot::served);
        assert!(admission.lines().is_empty());
    }

    #[test]
    fn callers_are_held_back_until_half_of_the_tickets_are_out() {
        let admission = admission();
        let mut slots = limited(&admission);
        let (key, other) = (key(), Key::new("other").unwrap());
        let mut next = std::pin::pin!(admission.admit(&key));
        assert!(next.as_mut().now_or_never().is_none());
        assert!(admission.admit(&other).now_or_never().is_some(), "of another line");
        slots.truncate(LEAVING_MAX.div_ceil(2));
        assert!(next.as_mut().now_or_never().is_none(), "half are still there");
        slots.pop();
        assert!(next.now_or_never().is_some());
    }

    #[test]
    fn a_caller_who_is_admitted_and_gone_admits_the_next() {
        let admission = admission();
        let slots = limited(&admission);
        let key = key();
        let mut callers: Vec<_> = (0..9).map(|_| Box::pin(admission.admit(&key))).collect();
        for caller in &mut callers {
            assert!(caller.now_or_never().is_none());
        }
        drop(slots);
        // Each that is dropped has a slot, or lets another one have it.
        while let Some(caller) = callers.pop() {
            drop(caller);
        }
        assert!(admission.lines().is_empty(), "nobody is there any more");
    }

    #[test]
    fn a_limit_grows_while_tickets_are_served_and_goes_once_it_holds_no_caller_back() {
        let (admission, key) = (admission(), key());
        let mut slots = limited(&admission);
        let limit = || admission.lines().get(&key).and_then(|line| line.limit);
        let (first, mut waits) = (limit().unwrap(), Box::pin(admission.admit(&key)));
        assert!(waits.as_mut().now_or_never().is_none());
        slots.drain(..first).for_each(Slot::served);
        assert_eq!(limit(), Some(first + 1));
        drop(waits);
        slots.pop().unwrap().served();
        assert_eq!(limit(), None);
    }
}
