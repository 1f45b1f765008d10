//! Refusals that every engine gives in the same words.

use crate::{Error, Key, LINE_TICKETS_MAX, NUMBER_MAX, Result};

/// A share of another capacity than the one that the line is kept for.
pub fn other_capacity(key: &Key, kept: u64, asked: u32) -> Error {
    Error::invalid(format!(
        "the line of {key:?} is kept for a capacity of {kept}, not of {asked}: everyone who uses a key must agree on what it is"
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
