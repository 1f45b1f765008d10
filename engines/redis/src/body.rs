//! The encoding of a ticket: a card, most of which the scripts only keep.

use std::time::Duration;

use tenure_core::{Error, Key, NUMBER_MAX, Result, Ticket};

/// Length of the name of an inbox.
pub(crate) const INBOX_LETTERS: usize = 16;

/// Place of the body in a card.
const BODY_AT: usize = 17;
/// Take and capacity.
const SHARE_BYTES: usize = 8;
/// Length of a body without key, owner and note.
const BODY_BYTES_MIN: usize = INBOX_LETTERS + SHARE_BYTES + 8 + 4;

/// Returns the card of a ticket: a sign and its id, then the body. The body is the inbox, the
/// share, the ttl, and the parts that others may see, which are key, owner and note.
pub(crate) fn card(ticket: &Ticket, inbox: &str) -> Vec<u8> {
    debug_assert_eq!(inbox.len(), INBOX_LETTERS);
    let (key, owner) = (ticket.key.as_str(), &*ticket.owner);
    let mut body =
        Vec::with_capacity(BODY_AT + BODY_BYTES_MIN + key.len() + owner.len() + ticket.note.len());
    body.extend_from_slice(&asks(ticket, inbox));
    body.extend_from_slice(&ticket.share.take().to_le_bytes());
    body.extend_from_slice(&ticket.share.of().to_le_bytes());
    body.extend_from_slice(&as_lua(micros(ticket.ttl)).to_le_bytes());
    for text in [key, owner] {
        let length = u16::try_from(text.len()).expect("keys and owners are short");
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(text.as_bytes());
    }
    body.extend_from_slice(ticket.note.as_bytes());
    body
}

/// Returns the request that a ticket leaves, in the form of the beginning of a card: the id of the
/// ticket, and the inbox of the caller.
pub(crate) fn asks(ticket: &Ticket, inbox: &str) -> [u8; BODY_AT + INBOX_LETTERS] {
    let mut asks = [b'a'; BODY_AT + INBOX_LETTERS];
    asks[1..BODY_AT].copy_from_slice(&ticket.id.to_u128().to_be_bytes());
    asks[BODY_AT..].copy_from_slice(inbox.as_bytes());
    asks
}

/// The parts of a body.
pub(crate) struct Body<'a> {
    pub(crate) ttl: Duration,
    pub(crate) key: Key,
    pub(crate) owner: &'a str,
    pub(crate) note: &'a str,
}

/// Decodes a body from any place.
pub(crate) fn decode(body: &[u8]) -> Result<Body<'_>> {
    try_decode(body).ok_or_else(|| {
        Error::rejected("the server keeps something under one of Tenure's names that Tenure did not write there")
    })
}

fn try_decode(body: &[u8]) -> Option<Body<'_>> {
    let rest = body.get(INBOX_LETTERS + SHARE_BYTES..)?;
    let (ttl, rest) = rest.split_first_chunk()?;
    let (key, rest) = text(rest)?;
    let (owner, note) = text(rest)?;
    Some(Body {
        ttl: Duration::from_micros(exact(f64::from_le_bytes(*ttl))?),
        key: Key::new(key).ok()?,
        owner,
        note: std::str::from_utf8(note).ok()?,
    })
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

/// Maximum life. With the current time it stays an exact number in Lua until the year 2112.
const MICROS_MAX: u64 = 1 << 52;

/// Returns a time in the unit of the scripts.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX).min(MICROS_MAX)
}

/// Returns a number in the type of the scripts.
#[allow(clippy::cast_precision_loss, reason = "so small a number is exact")]
fn as_lua(number: u64) -> f64 {
    debug_assert!(number <= NUMBER_MAX);
    number as f64
}

/// Converts a number of the scripts, if it is one of Tenure's: whole, and small enough to be exact.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is checked")]
pub(crate) fn exact(number: f64) -> Option<u64> {
    (0.0..=as_lua(NUMBER_MAX)).contains(&number).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Note, Owner, Share, TicketId};

    use super::*;

    #[test]
    fn what_was_written_is_read_and_what_was_cut_is_refused() {
        let ticket = Ticket {
            id: TicketId::fresh(),
            key: Key::new("a\0{b}").unwrap(),
            share: Share::WHOLE,
            ttl: Duration::from_micros(1_500_001),
            owner: Owner::shortened("ö"),
            note: Note::shortened("n"),
            floor: 0,
        };
        let card = card(&ticket, "0123456789abcdef");
        let body = &card[BODY_AT..];
        let read = decode(body).unwrap();
        assert_eq!(
            (read.ttl, &read.key, read.owner, read.note),
            (ticket.ttl, &ticket.key, "ö", "n")
        );
        for cut in 0..body.len() - 1 {
            assert!(decode(&body[..cut]).is_err(), "{cut}");
        }
    }
}
