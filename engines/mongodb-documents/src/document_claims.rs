//! The claims of this client: the document that each ticket of a queue has claimed, or may have.
//!
//! A leave removes the entry of its ticket. After a long outage some tickets have expired without a
//! leave, so each entry ends when its ticket can no longer live.

use std::ops::Range;
use std::sync::Arc;

use tenure_core::sync::Mutex;
use tenure_core::{Error, ExpiringMap, Result, TicketId, Time};
use tenure_mongodb::extension::Location;

use crate::locations::Claiming;

/// The claims of this client, by their tickets.
#[derive(Default)]
pub(crate) struct DocumentClaims(Mutex<ExpiringMap<DocumentClaim>>);

#[derive(Clone)]
enum DocumentClaim {
    /// The claim has no answer: the ticket may have claimed any document of this queue.
    Sent(Arc<Claiming>),
    /// The ticket has claimed the document at this place.
    Made(Arc<Location>),
}

impl DocumentClaims {
    /// Notes that a claim is about to be sent, by a ticket that lives in `life`. Returns whether it
    /// is the first one of the ticket.
    ///
    /// # Errors
    ///
    /// This client has too many claims.
    pub(crate) fn begin(
        &self,
        id: TicketId,
        claiming: &Arc<Claiming>,
        life: Range<Time>,
    ) -> Result<bool> {
        let mut all = self.0.lock();
        let is_first = all.get(id, life.start).is_none();
        if !all.note(id, DocumentClaim::Sent(claiming.clone()), life.start, life.end) {
            return Err(Error::unavailable(
                "this client has claimed too many documents: release some, or wait until the store answers",
            ));
        }
        Ok(is_first)
    }

    /// Notes the document that a ticket has claimed.
    pub(crate) fn made(&self, id: TicketId, location: &Arc<Location>, life: Range<Time>) {
        // There is room: this replaces the entry of the claim that was sent.
        self.0.lock().note(id, DocumentClaim::Made(location.clone()), life.start, life.end);
    }

    /// Notes that a ticket is about to be renewed.
    pub(crate) fn renew(&self, id: TicketId, life: Range<Time>) {
        let mut all = self.0.lock();
        if let Some(claim) = all.get(id, life.start).cloned() {
            all.note(id, claim, life.start, life.end);
        }
    }

    /// Returns the place of the document that a ticket has claimed.
    pub(crate) fn claimed_by(&self, id: TicketId, now: Time) -> Option<Arc<Location>> {
        match self.0.lock().get(id, now) {
            Some(DocumentClaim::Made(location)) => Some(location.clone()),
            _ => None,
        }
    }

    /// Returns the queue of which a ticket may have claimed a document, without an answer.
    pub(crate) fn doubtful(&self, id: TicketId, now: Time) -> Option<Arc<Claiming>> {
        match self.0.lock().get(id, now) {
            Some(DocumentClaim::Sent(claiming)) => Some(claiming.clone()),
            _ => None,
        }
    }

    /// Removes a ticket that has no document, and will have none.
    pub(crate) fn forget(&self, id: TicketId) {
        self.0.lock().forget(id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mongodb::bson::Document;
    use tenure_core::Key;

    use super::*;
    use crate::locations::Locations;

    const NOW: Time = Time { boot_ns: 0, raw_ns: 0 };
    const LIFE: Duration = Duration::from_secs(30);

    fn life(now: Time) -> Range<Time> {
        now..now.plus(LIFE)
    }

    fn location() -> Arc<Location> {
        let locations = Locations::new("_tenure", None);
        Arc::new(locations.any(&Key::new("k").unwrap(), &Document::new()))
    }

    #[test]
    fn claims_without_an_answer_end_and_leave_room_for_others() {
        let (claims, claiming) = (DocumentClaims::default(), Arc::default());
        for second in 0..10_000 {
            let (id, now) = (TicketId::fresh(), NOW.plus(Duration::from_secs(second)));
            assert!(claims.begin(id, &claiming, life(now)).unwrap());
            assert!(claims.doubtful(id, now).is_some(), "the claim number {second} is kept");
            assert!(claims.doubtful(id, now.plus(LIFE)).is_none(), "its ticket lives no more");
        }
        assert!(claims.0.lock().len() < 2048, "{}", claims.0.lock().len());
    }

    #[test]
    fn a_claimed_document_is_known_for_as_long_as_its_ticket_is_renewed() {
        let (claims, id) = (DocumentClaims::default(), TicketId::fresh());
        assert!(claims.begin(id, &Arc::default(), life(NOW)).unwrap());
        assert!(!claims.begin(id, &Arc::default(), life(NOW)).unwrap(), "it is sent again");
        claims.made(id, &location(), life(NOW));
        assert!(claims.doubtful(id, NOW).is_none());
        let later = NOW.plus(LIFE / 2);
        claims.renew(id, life(later));
        assert!(claims.claimed_by(id, NOW.plus(LIFE)).is_some());
        assert!(claims.claimed_by(id, later.plus(LIFE)).is_none());
        claims.renew(id, life(later.plus(LIFE)));
        assert!(claims.claimed_by(id, later.plus(LIFE)).is_none(), "it does not come back");
    }
}
