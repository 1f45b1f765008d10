//! Request fences keep out a request for good that may still be on its way.
//!
//! A join may be given up before its answer comes: its caller is dropped, or its time is over. The
//! request may arrive long after that, through a member that was frozen, and no time limit excludes
//! that. So each such request names the revision with which a key of its session, the fence, was
//! put last. To keep the request out, its client raises the fence: it puts the key once more. All
//! requests that were sent before find another revision there, and change nothing.
//!
//! A ticket's id selects one of its session's fences. So the few other requests that are in flight
//! at that moment with the same fence are refused, too, and are sent again with the new revision. A
//! session has no more keys than that, at any number of abandoned requests.

use std::collections::HashMap;

use tenure_core::TicketId;
use tenure_core::sync::Mutex;
use tenure_queue::SessionId;

/// A fence of a session, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestFence {
    pub(crate) session: SessionId,
    pub(crate) nth: u8,
    /// The revision with which it was put last; 0 if it never was.
    pub(crate) raised: u64,
}

/// The fences of one client's sessions.
#[derive(Default)]
pub(crate) struct RequestFences(Mutex<SessionFences>);

type SessionFences = HashMap<SessionId, HashMap<u8, Known>>;

/// The revision with which a fence was put last, and the moment of that knowledge.
#[derive(Clone, Copy)]
struct Known {
    raised: u64,
    at: u64,
}

impl RequestFences {
    /// Adds a session without raised fences.
    pub(crate) fn open(&self, session: SessionId) {
        self.0.lock().insert(session, HashMap::new());
    }

    /// Removes a session that is over. Its fences went with it, and no join with it succeeds any
    /// more.
    pub(crate) fn end(&self, session: SessionId) {
        self.0.lock().remove(&session);
    }

    /// Returns the fence of a ticket that joins with this session.
    pub(crate) fn of(&self, id: TicketId, session: SessionId) -> RequestFence {
        let [nth, ..] = id.to_u128().to_le_bytes();
        let known = self.0.lock().get(&session).and_then(|all| all.get(&nth).copied());
        RequestFence { session, nth, raised: known.map_or(0, |known| known.raised) }
    }

    /// Notes that a fence was put.
    pub(crate) fn was_raised(&self, fence: RequestFence, at: u64) {
        self.was_seen(RequestFence { raised: at, ..fence }, at);
    }

    /// Notes a fence as it was at this moment. Answers may come in any order. An operator may have
    /// deleted its key.
    pub(crate) fn was_seen(&self, fence: RequestFence, at: u64) {
        let mut sessions = self.0.lock();
        let Some(all) = sessions.get_mut(&fence.session) else { return };
        let now = Known { raised: fence.raised, at };
        let known = all.entry(fence.nth).or_insert(now);
        if known.at < at {
            *known = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_known_as_it_was_last() {
        let (fences, id) = (RequestFences::default(), TicketId::from_u128(0x1234));
        fences.open(7);
        let fence = fences.of(id, 7);
        assert_eq!((fence.nth, fence.raised), (0x34, 0));
        fences.was_raised(fence, 9);
        fences.was_raised(fence, 8);
        fences.was_seen(fence, 8);
        assert_eq!(fences.of(id, 7).raised, 9, "answers may come in any order");
        fences.was_seen(fence, 10);
        assert_eq!(fences.of(id, 7).raised, 0, "an operator deleted it");
        assert_eq!(fences.of(TicketId::from_u128(0x1235), 7).raised, 0);
    }

    #[test]
    fn nothing_is_kept_of_a_session_that_is_over() {
        let (fences, id) = (RequestFences::default(), TicketId::fresh());
        fences.open(7);
        let fence = fences.of(id, 7);
        fences.end(7);
        fences.was_raised(fence, 9);
        assert!(fences.0.lock().is_empty());
    }
}
