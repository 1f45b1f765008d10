//! Latches keep out a request for good that may still be on its way.
//!
//! A join may be given up before its answer comes: its caller is dropped, or its time is over. The
//! request may arrive long after that, through a member that was frozen, and no time limit excludes
//! that. So each such request names the revision with which a key of its session, the latch, was
//! put last. To keep the request out, its client puts the latch once more. All requests that were
//! sent before find another revision there, and change nothing.
//!
//! A ticket's id selects one of its session's latches. So the few other requests that are in flight
//! at that moment with the same latch are refused, too, and are sent again with the new revision. A
//! session has no more keys than that, at any number of abandoned requests.

use std::collections::HashMap;

use tenure_core::TicketId;
use tenure_core::sync::Mutex;
use tenure_queue::SessionId;

/// A latch of a session, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latch {
    pub(crate) session: SessionId,
    pub(crate) nth: u8,
    /// The revision with which it was put last; 0 if it never was.
    pub(crate) shut: u64,
}

/// The latches of one client's sessions.
#[derive(Default)]
pub(crate) struct Latches(Mutex<SessionLatches>);

type SessionLatches = HashMap<SessionId, HashMap<u8, Known>>;

/// The revision with which a latch was put last, and the moment of that knowledge.
#[derive(Clone, Copy)]
struct Known {
    shut: u64,
    at: u64,
}

impl Latches {
    /// Adds a session without shut latches.
    pub(crate) fn open(&self, session: SessionId) {
        self.0.lock().insert(session, HashMap::new());
    }

    /// Removes a session that is over. Its latches went with it, and no join with it succeeds any
    /// more.
    pub(crate) fn end(&self, session: SessionId) {
        self.0.lock().remove(&session);
    }

    /// Returns the latch of a ticket that joins with this session.
    pub(crate) fn of(&self, id: TicketId, session: SessionId) -> Latch {
        let [nth, ..] = id.to_u128().to_le_bytes();
        let known = self.0.lock().get(&session).and_then(|all| all.get(&nth).copied());
        Latch { session, nth, shut: known.map_or(0, |known| known.shut) }
    }

    /// Notes that a latch was put.
    pub(crate) fn was_shut(&self, latch: Latch, at: u64) {
        self.was_seen(Latch { shut: at, ..latch }, at);
    }

    /// Notes a latch as it was at this moment. Answers may come in any order. An operator may have
    /// deleted its key.
    pub(crate) fn was_seen(&self, latch: Latch, at: u64) {
        let mut sessions = self.0.lock();
        let Some(all) = sessions.get_mut(&latch.session) else { return };
        let now = Known { shut: latch.shut, at };
        let known = all.entry(latch.nth).or_insert(now);
        if known.at < at {
            *known = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latch_is_known_as_it_was_last() {
        let (latches, id) = (Latches::default(), TicketId::from_u128(0x1234));
        latches.open(7);
        let latch = latches.of(id, 7);
        assert_eq!((latch.nth, latch.shut), (0x34, 0));
        latches.was_shut(latch, 9);
        latches.was_shut(latch, 8);
        latches.was_seen(latch, 8);
        assert_eq!(latches.of(id, 7).shut, 9, "answers may come in any order");
        latches.was_seen(latch, 10);
        assert_eq!(latches.of(id, 7).shut, 0, "an operator deleted it");
        assert_eq!(latches.of(TicketId::from_u128(0x1235), 7).shut, 0);
    }

    #[test]
    fn nothing_is_kept_of_a_session_that_is_over() {
        let (latches, id) = (Latches::default(), TicketId::fresh());
        latches.open(7);
        let latch = latches.of(id, 7);
        latches.end(7);
        latches.was_shut(latch, 9);
        assert!(latches.0.lock().is_empty());
    }
}
