//! Latches: how a request that may still be on its way is kept out for good.
//!
//! A request that lets a ticket in may be given up before its answer comes: its caller is dropped, or its time is over. It may
//! arrive long after that, through a member that was frozen, and no time limit says when it does not any more. So each such
//! request names the revision with which a key of its session, the latch, was put last. To keep the request out, its client
//! puts the latch once more: whatever was sent before finds another revision there, and changes nothing.
//!
//! A ticket's id tells which of its session's latches is its own. So the few others that are on their way at that moment and have the
//! same latch are refused, too, and are sent again with the new revision; and a session has no more keys than that, however
//! many of its requests are given up.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_core::TicketId;
use tenure_queue::SessionId;

/// One of a session's latches, as its client knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Latch {
    pub(crate) session: SessionId,
    pub(crate) nth: u8,
    /// The revision with which it was put last; 0 if it never was.
    pub(crate) shut: u64,
}

/// The latches of one client's sessions.
#[derive(Default)]
pub(crate) struct Latches(Mutex<Sessions>);

type Sessions = HashMap<SessionId, HashMap<u8, Known>>;

/// With which revision a latch was put last, and of which moment that is known.
#[derive(Clone, Copy)]
struct Known {
    shut: u64,
    at: u64,
}

impl Latches {
    /// A session begins, and nothing of it is kept out.
    pub(crate) fn open(&self, session: SessionId) {
        self.lock().insert(session, HashMap::new());
    }

    /// A session is over: its latches went with it, and nothing comes in with it any more.
    pub(crate) fn end(&self, session: SessionId) {
        self.lock().remove(&session);
    }

    /// The latch of a ticket that comes in with this session.
    pub(crate) fn of(&self, id: TicketId, session: SessionId) -> Latch {
        let [nth, ..] = id.to_u128().to_le_bytes();
        let known = self.lock().get(&session).and_then(|all| all.get(&nth).copied());
        Latch { session, nth, shut: known.map_or(0, |known| known.shut) }
    }

    /// A latch was put.
    pub(crate) fn was_shut(&self, latch: Latch, at: u64) {
        self.was_seen(Latch { shut: at, ..latch }, at);
    }

    /// A latch is as it was at this moment. Answers may come in any order. An operator may have deleted its key.
    pub(crate) fn was_seen(&self, latch: Latch, at: u64) {
        let mut sessions = self.lock();
        let Some(all) = sessions.get_mut(&latch.session) else { return };
        let now = Known { shut: latch.shut, at };
        let known = all.entry(latch.nth).or_insert(now);
        if known.at < at {
            *known = now;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert!(latches.lock().is_empty());
    }
}
