//! A request: one verb of a caller for one ticket, and its form in the first stage of a command.

use std::sync::Arc;

use mongodb::bson::{RawDocumentBuf, rawdoc};
use tenure_core::{NUMBER_MAX, Ticket};

use crate::counter::millis;

/// Microseconds in a millisecond.
const LOW_DIGITS: u128 = 1000;

/// A verb for a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Join {
        /// The ticket is not to wait.
        hurry: bool,
    },
    Renew,
    Leave {
        /// The ticket is asked to leave, and keeps its place until its owner has stopped.
        soon: bool,
    },
    /// Returns where the ticket stands, without a renewal.
    Look,
}

/// The fields that a ticket which is served at once reads of the locked document, in the same step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// No document is read.
    #[default]
    Nothing,
    /// All fields.
    Everything,
    /// These fields.
    Fields(Arc<[String]>),
}

impl Reads {
    /// Returns the fields that satisfy both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Nothing, one) | (one, Self::Nothing) => one.clone(),
            (Self::Fields(some), Self::Fields(more)) => {
                let new = more.iter().filter(|field| !some.contains(field));
                Self::Fields(some.iter().chain(new).cloned().collect())
            }
            _ => Self::Everything,
        }
    }
}

/// One verb for one ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TicketRequest {
    pub(crate) ticket: Ticket,
    pub(crate) verb: Verb,
    pub(crate) reads: Reads,
}

impl TicketRequest {
    /// A request that reads nothing.
    pub(crate) fn new(ticket: Ticket, verb: Verb) -> Self {
        Self { ticket, verb, reads: Reads::Nothing }
    }

    pub(crate) fn is_join(&self) -> bool {
        matches!(self.verb, Verb::Join { .. })
    }

    pub(crate) fn is_leave(&self) -> bool {
        matches!(self.verb, Verb::Leave { .. })
    }

    /// Returns the request as the stages of its verb read it.
    pub(crate) fn argument(&self) -> RawDocumentBuf {
        let ticket = &self.ticket;
        let (id, take) = (ticket.id.to_string(), i64::from(ticket.share.take()));
        let (ttl, floor) = (millis(ticket.ttl), exact(ticket.floor));
        match self.verb {
            Verb::Look => RawDocumentBuf::new(),
            Verb::Leave { soon } => rawdoc! { "id": id, "soon": soon },
            Verb::Renew => {
                rawdoc! { "id": id, "take": take, "ttl": ttl, "note": &*ticket.note, "floor": floor }
            }
            Verb::Join { hurry } => {
                let ttl_us = u64::try_from(ticket.ttl.as_micros()).unwrap_or(NUMBER_MAX);
                rawdoc! {
                    "id": id, "take": take, "of": i64::from(ticket.share.of()), "ttl": ttl,
                    "ttl_us": exact(ttl_us.min(NUMBER_MAX)), "owner": &*ticket.owner,
                    "note": &*ticket.note, "floor": floor, "low": low(ticket), "hurry": hurry,
                }
            }
        }
    }
}

/// The last three digits of the number of a ticket in a document, which the clock in milliseconds
/// leaves open. They come from the ticket, so that two clients do not give the same number after a
/// stranger has removed the last one.
fn low(ticket: &Ticket) -> i64 {
    i64::try_from(ticket.id.to_u128() % LOW_DIGITS).unwrap_or(0)
}

/// Returns the number, capped at one that is too large for any line.
pub(crate) fn exact(number: u64) -> i64 {
    i64::try_from(number.min(NUMBER_MAX + 1)).unwrap_or(i64::MAX)
}
