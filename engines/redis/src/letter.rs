//! A message of a script to a ticket, through its client's channel.

use tenure_core::TicketId;
use tenure_kit::subscriptions::{Notification, Subscriptions};

use crate::body::exact;

/// Delivers a message to the ticket's subscription.
pub(crate) fn deliver(mail: &Subscriptions, message: &[u8]) {
    let Some((id, letter)) = read(message) else {
        tracing::warn!("a message on Tenure's channel was not sent by Tenure");
        return;
    };
    mail.deliver(id, letter);
}

/// Reads a message: the id, then a sign and the number as the scripts pack it. `S`: it is served;
/// `T`: it is asked to leave; `O`: it is out.
fn read(message: &[u8]) -> Option<(TicketId, Notification)> {
    let (id, rest) = message.split_first_chunk()?;
    let (sign, number) = rest.split_first()?;
    let number = exact(f64::from_le_bytes(number.try_into().ok()?))?;
    let letter = match sign {
        b'S' => Notification::Served(number),
        b'T' => Notification::Told,
        _ => Notification::Out,
    };
    Some((TicketId::from_u128(u128::from_be_bytes(*id)), letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_letter_is_read() {
        let id = TicketId::fresh();
        let message = |sign: u8, number: f64| {
            [&id.to_u128().to_be_bytes()[..], &[sign], &number.to_le_bytes()].concat()
        };
        for (sign, letter) in [
            (b'S', Notification::Served(46)),
            (b'T', Notification::Told),
            (b'O', Notification::Out),
        ] {
            assert_eq!(read(&message(sign, 46.0)), Some((id, letter)));
        }
        assert_eq!(read(&message(b'S', -1.0)), None);
        for garbage in [&b""[..], b"short", &[b'x'; 16], &[b'x'; 40]] {
            assert_eq!(read(garbage), None);
        }
    }
}
