//! A letter: a notification of a ticket, which a step writes into the record's field `notices`.

use tenure_core::TicketId;
use tenure_kit::subscriptions::{Notification, Subscriptions};

/// Number of letters in the name of an inbox. An id of a ticket has `ID_LETTERS`.
pub(crate) const INBOX_LETTERS: usize = 16;
const ID_LETTERS: usize = 32;

/// Delivers the letters of a notices that are for this inbox to the boxes of their tickets.
pub(crate) fn deliver(mail: &Subscriptions, inbox: &str, notices: &str) {
    for letter in notices.split_ascii_whitespace() {
        if !letter.starts_with(inbox) {
            continue;
        }
        if let Some((id, letter)) = read(letter) {
            mail.deliver(id, letter);
        } else {
            tracing::warn!("a letter in a record was not written by Tenure");
        }
    }
}

/// Parses a letter: the inbox, the id, a sign and the number. `S`: the ticket is served. `T`: it is
/// asked to leave. `O`: it is out. `B`: it is out because it was asked to leave.
fn read(letter: &str) -> Option<(TicketId, Notification)> {
    let (id, rest) = letter.get(INBOX_LETTERS..)?.split_at_checked(ID_LETTERS)?;
    let (sign, number) = rest.split_at_checked(1)?;
    let number = number.parse().ok()?;
    let letter = match sign {
        "S" => Notification::Served(number),
        "T" => Notification::Told,
        "O" | "B" => Notification::Out,
        _ => return None,
    };
    Some((id.parse().ok()?, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_letter_is_read() {
        let (id, inbox) = (TicketId::fresh(), "0123456789abcdef");
        let letter = |rest: &str| format!("{inbox}{id}{rest}");
        for (rest, wanted) in [
            ("S46", Notification::Served(46)),
            ("T46", Notification::Told),
            ("O46", Notification::Out),
            ("B46", Notification::Out),
        ] {
            assert_eq!(read(&letter(rest)), Some((id, wanted)));
        }
        for garbage in ["", "short", &letter(""), &letter("X46"), &letter("S"), "äöüäöüäöüäöüäöü"]
        {
            assert_eq!(read(garbage), None, "{garbage}");
        }
    }
}
