//! Refusals that every engine gives in the same words.

use crate::{Error, Key, LINE_TICKETS_MAX, NUMBER_MAX, Result, SHARE_OF_MAX, Share, TicketId};

/// A share of another capacity than the one that the line is kept for.
pub fn other_capacity(key: &Key, kept: u64, asked: Share) -> Error {
    let kept = if kept == u64::from(SHARE_OF_MAX) {
        "a mutex or reader-writer lock".to_owned()
    } else {
        format!("a semaphore of {kept}")
    };
    let asked = match (asked.take(), asked.of()) {
        (SHARE_OF_MAX, SHARE_OF_MAX) => "a mutex".to_owned(),
        (_, SHARE_OF_MAX) => "a reader-writer lock".to_owned(),
        (_, permits) => format!("a semaphore of {permits}"),
    };
    Error::invalid(format!(
        "{key:?} is {kept}; asked for as {asked}: everyone who uses a key must agree on what it is"
    ))
}

/// A ticket with the id of somebody else's: two processes are copies of one.
pub fn id_of_another(key: &Key, id: TicketId, owner: &str) -> Error {
    Error::invalid(format!(
        "the line of {key:?} has a ticket {id} already, and it belongs to {owner:?}: every ticket needs an id of its own"
    ))
}

/// The line has as many tickets as it can.
pub fn line_is_full(key: &Key) -> Error {
    Error::rejected(format!("the line of {key:?} is full: it has {LINE_TICKETS_MAX} tickets"))
}

/// The ticket would have a number that is too large.
pub fn no_numbers_left(key: &Key, next: u64) -> Error {
    Error::rejected(format!(
        "the line of {key:?} has no numbers left: its next would be {next}, and the last there is is {NUMBER_MAX}"
    ))
}

/// The count would become too large.
pub fn count_is_full(key: &Key, value: u64, by: u64) -> Error {
    Error::rejected(format!(
        "the count of {key:?} cannot grow by {by}: it is at {value}, and the last number there is is {NUMBER_MAX}"
    ))
}

/// The count after adding to it, unless it would become too large.
pub fn checked_sum(key: &Key, value: u64, by: u64) -> Result<u64> {
    let sum = value.checked_add(by).filter(|sum| *sum <= NUMBER_MAX);
    sum.ok_or_else(|| count_is_full(key, value, by))
}
