//! One ticket of this client.

use std::sync::Arc;

use tenure_core::{Result, Time};
use tenure_kit::SingleFlight;

use crate::node::{Node, TicketName};
use crate::position::Position;
use crate::session::Session;

/// A ticket that this client put into a line, or asked to.
#[derive(Clone)]
pub(crate) struct OwnTicket {
    pub(crate) name: TicketName,
    pub(crate) session: Arc<Session>,
    /// The last read of it; `None` until its join is answered.
    pub(crate) seen: Option<Sighting>,
    /// It is served: the store said so, and a served ticket stays served until it leaves.
    pub(crate) holds: bool,
    /// It was asked to leave, and may keep its place until this time.
    pub(crate) told: Option<Time>,
    /// The reads of it.
    pub(crate) reads: Arc<SingleFlight<Result<Option<Sighting>>>>,
    /// The owner's last sign of life. A session lives on although the owner of a ticket has long
    /// given it up.
    pub(crate) signed: Time,
    /// Its join was requested more than once.
    pub(crate) is_asked_again: bool,
    pub(crate) going: Going,
}

/// Whether its own client is removing a ticket.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Going {
    Not,
    /// Its owner releases it, and the answer says which ticket is served in its place.
    Leaves,
    /// Its owner had given it up, or its time to leave was over. A sign of life comes too late now.
    Condemned,
}

impl OwnTicket {
    /// Returns a ticket that was not read yet.
    pub(crate) fn new(name: TicketName, session: Arc<Session>, now: Time) -> Self {
        Self {
            name,
            session,
            seen: None,
            holds: false,
            told: None,
            reads: Arc::default(),
            signed: now,
            is_asked_again: false,
            going: Going::Not,
        }
    }

    pub(crate) fn is_condemned(&self) -> bool {
        self.going == Going::Condemned
    }

    pub(crate) fn is_overdue(&self, now: Time) -> bool {
        let ends = self.signed.plus(self.session.granted);
        now.has_reached(self.told.map_or(ends, |told| told.min(ends)))
    }
}

/// A ticket and its place at one moment.
#[derive(Clone)]
pub(crate) struct Sighting {
    pub(crate) node: Node,
    pub(crate) position: Position,
}
