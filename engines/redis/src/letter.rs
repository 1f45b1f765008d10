//! A letter: what a script tells a ticket by a message to its client's channel.

use tenure_core::TicketId;
use tenure_kit::mailbox::{Letter, Mailbox};

/// Puts a message into the ticket's box.
pub(crate) fn deliver(mail: &Mailbox, message: &[u8]) {
    let Some((id, letter)) = read(message) else {
        tracing::warn!("a message on Tenure's channel was not sent by Tenure");
        return;
    };
    mail.deliver(id, letter);
}

/// The id, then a sign and the number: `S` it is served, `T` it is told to leave, `O` it is out.
fn read(message: &[u8]) -> Option<(TicketId, Letter)> {
    let (id, rest) = message.split_first_chunk()?;
    let (sign, number) = rest.split_first()?;
    let number = std::str::from_utf8(number).ok()?.parse().ok()?;
    let letter = match sign {
        b'S' => Letter::Served(number),
        b'T' => Letter::Told,
        _ => Letter::Out,
    };
    Some((TicketId::from_u128(u128::from_be_bytes(*id)), letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_letter_is_read() {
        let id = TicketId::fresh();
        let message = |rest: &str| [&id.to_u128().to_be_bytes()[..], rest.as_bytes()].concat();
        for (rest, letter) in
            [("S46", Letter::Served(46)), ("T46", Letter::Told), ("O46", Letter::Out)]
        {
            assert_eq!(read(&message(rest)), Some((id, letter)));
        }
        for garbage in [&b""[..], b"short", &[b'x'; 16], &[b'x'; 40]] {
            assert_eq!(read(garbage), None);
        }
    }
}
