//! A letter: what a step tells a ticket, in the record's bell.

use tenure_core::TicketId;
use tenure_kit::subscriptions::{Notification, Subscriptions};

/// How many letters the name of an inbox has, and the name of a ticket.
pub(crate) const INBOX_LETTERS: usize = 16;
const ID_LETTERS: usize = 32;

/// Puts those of a bell's letters that are for this inbox into their tickets' boxes.
pub(crate) fn deliver(mail: &Subscriptions, inbox: &str, bell: &str) {
    for letter in bell.split_ascii_whitespace() {
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

/// The inbox, the id, then a sign and the number: `S` it is served, `T` it is told to leave, `O` it
/// is out, `B` it is out because it was told to leave.
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
