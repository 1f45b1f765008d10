//! Errors that every engine returns with the same reason and message.

use crate::{
    Error, Key, LINE_TICKETS_MAX, NUMBER_MAX, Reason, Result, SHARE_OF_MAX, Share, TicketId,
};

/// A ticket in the line cannot be read. It may hold the lock, so the engine lets no other ticket
/// in. The engine adds the key and the place with [`with_place`].
pub fn unreadable_ticket() -> Error {
    Error::rejected(
        "a ticket in the line cannot be read: another version of Tenure or another program wrote it",
    )
    .with_reason(Reason::UnreadableTicket)
}

/// A stored number cannot be read. The next number may have been given before, so the engine gives
/// none. The engine adds the key and the place with [`with_place`].
pub fn unreadable_number() -> Error {
    Error::rejected("a stored number cannot be read: another program wrote it")
        .with_reason(Reason::UnreadableNumber)
}

/// A stored value cannot be read, because it is no text. The engine adds the key and the place with
/// [`with_place`].
pub fn unreadable_value() -> Error {
    Error::rejected("a stored value cannot be read: another program wrote it")
        .with_reason(Reason::UnreadableValue)
}

/// Adds the key, its place in the store and the way out to [`unreadable_ticket`],
/// [`unreadable_number`] and [`unreadable_value`]. Returns any other error as it is.
///
/// ```
/// use tenure::{Key, Reason};
/// use tenure_core::errors;
///
/// let key = Key::new("invoices")?;
/// let error = errors::with_place(errors::unreadable_number(), &key, "under the name tenure:n");
/// assert_eq!(error.reason(), Some(Reason::UnreadableNumber));
/// assert_eq!(error.key(), Some(&key));
/// assert!(error.to_string().ends_with("write a number that is larger than all that were given"));
/// # Ok::<(), tenure::Error>(())
/// ```
pub fn with_place(error: Error, key: &Key, place: &str) -> Error {
    let way_out = match error.reason() {
        Some(Reason::UnreadableTicket) => "delete that ticket when no client holds the lock",
        Some(Reason::UnreadableNumber) => "write a number that is larger than all that were given",
        Some(Reason::UnreadableValue) => "delete it, if its slots may run again",
        _ => return error,
    };
    error.with_key(key).with_more(format_args!("; the key is {key:?}, stored {place}: {way_out}"))
}

/// The line has another capacity than the share asks for.
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
        "{key:?} is in use as {kept}, and was asked for as {asked}: use it in the same way everywhere, or use another key"
    ))
    .with_reason(Reason::OtherCapacity)
    .with_key(key)
}

/// The line has a ticket with this id and another owner, as when a process was copied.
pub fn id_of_another(key: &Key, id: TicketId, owner: &str) -> Error {
    Error::invalid(format!(
        "the line of {key:?} already has a ticket {id}, which belongs to {owner:?}: every ticket needs an id of its own"
    ))
    .with_reason(Reason::IdTaken)
    .with_key(key)
}

/// The line has [`LINE_TICKETS_MAX`] tickets.
pub fn line_is_full(key: &Key) -> Error {
    Error::rejected(format!("the line of {key:?} is full: it has {LINE_TICKETS_MAX} tickets"))
        .with_reason(Reason::LineFull)
        .with_key(key)
}

/// The next ticket's number would be above [`NUMBER_MAX`].
pub fn no_numbers_left(key: &Key, next: u64) -> Error {
    Error::rejected(format!(
        "{key:?} has used up its numbers: the next would be {next}, and the largest is {NUMBER_MAX}"
    ))
    .with_reason(Reason::NumbersUsedUp)
    .with_key(key)
}

/// The count would become larger than [`NUMBER_MAX`].
pub fn count_is_full(key: &Key, value: u64, by: u64) -> Error {
    Error::rejected(format!(
        "the count of {key:?} cannot grow by {by}: it is {value}, and the largest is {NUMBER_MAX}"
    ))
    .with_reason(Reason::NumbersUsedUp)
    .with_key(key)
}

/// The messages of several errors, each once, with semicolons between them.
pub fn join<'a>(errors: impl IntoIterator<Item = &'a Error>) -> String {
    let mut messages: Vec<String> = Vec::new();
    for message in errors.into_iter().map(ToString::to_string) {
        if !messages.contains(&message) {
            messages.push(message);
        }
    }
    messages.join("; ")
}

/// The sum of a count and an amount.
///
/// # Errors
///
/// [`count_is_full`], if the sum would be larger than [`NUMBER_MAX`].
pub fn checked_sum(key: &Key, value: u64, by: u64) -> Result<u64> {
    let sum = value.checked_add(by).filter(|sum| *sum <= NUMBER_MAX);
    sum.ok_or_else(|| count_is_full(key, value, by))
}
