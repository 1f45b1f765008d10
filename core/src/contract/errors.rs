//! Refusals that every engine gives in the same words.

use crate::{Error, Key, LINE_TICKETS_MAX, NUMBER_MAX, Result, SHARE_OF_MAX, Share, TicketId};

/// Why nobody is let in behind what cannot be read: it may be served.
pub const UNREADABLE: &str = "a ticket in the line cannot be read, because another version of Tenure made it, or somebody changed it";
/// Why no number follows from what somebody else wrote in the place of one: it may have been given before.
pub const NO_NUMBER: &str = "a number that was kept is none any more";

/// [`UNREADABLE`] and [`NO_NUMBER`] with the key that they are about, where the store keeps it, and the way out; any other error as it is.
///
/// ```
/// use tenure_core::errors::{self, NO_NUMBER};
/// use tenure::{Error, Key};
///
/// let key = Key::new("invoices")?;
/// let error = errors::of_what_is_kept(Error::rejected(NO_NUMBER), &key, "under the name tenure:n");
/// assert!(error.to_string().ends_with("write a number into it that is above all that were given"));
/// # Ok::<(), Error>(())
/// ```
pub fn of_what_is_kept(error: Error, key: &Key, place: &str) -> Error {
    let way = match error.to_string().as_str() {
        UNREADABLE => "have what stands there deleted once nobody holds the lock",
        NO_NUMBER => "write a number into it that is above all that were given",
        _ => return error,
    };
    Error::rejected(format!("{error}: this is about {key:?}, which is kept {place}; {way}"))
}

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
        "{key:?} is used as {kept}, and was asked for as {asked}: use it in the same way everywhere, or take another key"
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

/// What is wrong with several servers, once for all of whom the same is true but for their names and for how much or how long.
pub fn once_for_all<'a>(troubles: impl IntoIterator<Item = (&'a str, &'a Error)>) -> String {
    let mut told: Vec<(String, String, Vec<&str>)> = Vec::new();
    for (name, error) in troubles {
        let text = error.to_string();
        let gist: String =
            text.replace(name, "").chars().filter(|letter| !letter.is_ascii_digit()).collect();
        match told.iter_mut().find(|(known, ..)| *known == gist) {
            Some((.., others)) => others.push(name),
            None => told.push((gist, named(name, text), Vec::new())),
        }
    }
    let sentence = |(_, first, others): (String, String, Vec<&str>)| {
        if others.is_empty() {
            first
        } else {
            format!("{first} (and so with {})", others.join(", "))
        }
    };
    told.into_iter().map(sentence).collect::<Vec<_>>().join("; ")
}

/// Says which server it was, unless the text does.
pub(crate) fn named(name: &str, text: String) -> String {
    if text.contains(name) { text } else { format!("{name}: {text}") }
}

/// The count after adding to it, unless it would become too large.
pub fn checked_sum(key: &Key, value: u64, by: u64) -> Result<u64> {
    let sum = value.checked_add(by).filter(|sum| *sum <= NUMBER_MAX);
    sum.ok_or_else(|| count_is_full(key, value, by))
}
