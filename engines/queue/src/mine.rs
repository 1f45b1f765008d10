//! One ticket of this client.

use std::sync::Arc;

use tenure_core::Time;

use crate::looks::Looks;
use crate::node::{Name, Node};
use crate::session::Session;
use crate::stand::Stand;
use crate::watched::Watched;

/// A ticket that this client put into a line, or asked to.
#[derive(Clone)]
pub(crate) struct Mine {
    pub(crate) name: Name,
    pub(crate) session: Arc<Session>,
    /// What was seen of it; nothing, as long as its join is not answered.
    pub(crate) seen: Option<Sighting>,
    /// It is served: the store said so, and what is served is served until it leaves.
    pub(crate) holds: bool,
    /// Until when it may keep its place, having been told to leave.
    pub(crate) told: Option<Time>,
    /// Who looks at it.
    pub(crate) looks: Arc<Looks<Sighting>>,
    /// The watch that its owner had last.
    pub(crate) watched: Watched,
    /// When its owner gave a sign of life last. A session lives on although the owner of a ticket has long given it up.
    pub(crate) signed: Time,
    /// It was asked to join more than once.
    pub(crate) is_asked_again: bool,
    pub(crate) going: Going,
}

/// Whether a ticket is being taken out by its own client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Going {
    Not,
    /// Its owner gives it back, and the answer to that tells who is served in its place.
    Leaves,
    /// Nobody wanted it any more, or it had to leave: a sign of life that comes now comes too late.
    Condemned,
}

impl Mine {
    /// A ticket of which nothing was seen yet.
    pub(crate) fn new(name: Name, session: Arc<Session>, now: Time) -> Self {
        Self {
            name,
            session,
            seen: None,
            holds: false,
            told: None,
            looks: Arc::default(),
            watched: Watched::default(),
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

/// What was seen of a ticket at one moment.
#[derive(Clone)]
pub(crate) struct Sighting {
    pub(crate) node: Node,
    pub(crate) stand: Stand,
    pub(crate) at: u64,
}
