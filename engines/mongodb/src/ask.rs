//! The request of a ticket, as it is written into the first stage of a command.

use mongodb::bson::{RawDocumentBuf, rawdoc};
use tenure_core::{NUMBER_MAX, Ticket};

use crate::count::millis;

/// Microseconds in a millisecond.
const LOW_DIGITS: u128 = 1000;

/// Returns the request of a ticket that joins.
pub(crate) fn joins(ticket: &Ticket, hurry: bool) -> RawDocumentBuf {
    let ttl_us = u64::try_from(ticket.ttl.as_micros()).unwrap_or(NUMBER_MAX);
    rawdoc! {
        "id": ticket.id.to_string(),
        "take": i64::from(ticket.share.take()),
        "of": i64::from(ticket.share.of()),
        "ttl": millis(ticket.ttl),
        "ttl_us": exact(ttl_us.min(NUMBER_MAX)),
        "owner": &*ticket.owner,
        "note": &*ticket.note,
        "floor": exact(ticket.floor),
        "low": low(ticket),
        "hurry": hurry,
    }
}

/// Returns the request of a ticket that renews.
pub(crate) fn renews(ticket: &Ticket) -> RawDocumentBuf {
    rawdoc! {
        "id": ticket.id.to_string(),
        "take": i64::from(ticket.share.take()),
        "ttl": millis(ticket.ttl),
        "note": &*ticket.note,
        "floor": exact(ticket.floor),
    }
}

/// The last three digits of the number of a ticket in a document, which the clock in milliseconds
/// leaves open. They come from the ticket, so that two clients do not give the same number after a
/// stranger has removed the last one.
fn low(ticket: &Ticket) -> i64 {
    i64::try_from(ticket.id.to_u128() % LOW_DIGITS).unwrap_or(0)
}

/// Returns the number, capped at one that is too large for any line.
fn exact(number: u64) -> i64 {
    i64::try_from(number.min(NUMBER_MAX + 1)).unwrap_or(i64::MAX)
}
