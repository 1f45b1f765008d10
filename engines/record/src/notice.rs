//! Notices: a step of one client changed the ticket of another.

use std::fmt;
use std::str::FromStr;

use tenure_core::{Error, Result, TicketId};
use tenure_kit::subscriptions::Notification;

/// Maximum notices in the channel of [`listen`](crate::RecordStore::listen).
pub const NOTICES_MAX: usize = 1024;

/// The address of a client for notices. Shown as 16 hexadecimal digits, for the name of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inbox(pub u64);

/// A notice to a ticket of another client. Shown as text of at most 57 bytes, which
/// [`parse`](str::parse) reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordNotice {
    /// The client.
    pub inbox: Inbox,
    /// The ticket.
    pub ticket: TicketId,
    /// The change.
    pub kind: RecordNoticeKind,
}

/// A change of a ticket by another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordNoticeKind {
    /// The ticket is served, and has this number.
    Served(u64),
    /// The ticket was asked to leave.
    AskedToLeave,
    /// The ticket is out of its line.
    Removed,
}

impl From<RecordNoticeKind> for Notification {
    fn from(kind: RecordNoticeKind) -> Self {
        match kind {
            RecordNoticeKind::Served(number) => Self::Served(number),
            RecordNoticeKind::AskedToLeave => Self::Told,
            RecordNoticeKind::Removed => Self::Out,
        }
    }
}

impl fmt::Display for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Display for RecordNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (code, number) = match self.kind {
            RecordNoticeKind::Served(number) => ('S', number),
            RecordNoticeKind::AskedToLeave => ('A', 0),
            RecordNoticeKind::Removed => ('R', 0),
        };
        write!(f, "{}{}{code}{number}", self.inbox, self.ticket)
    }
}

impl FromStr for RecordNotice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let inbox = u64::from_str_radix(text.get(..16)?, 16).ok()?;
            let ticket = text.get(16..48)?.parse().ok()?;
            let number = text.get(49..)?.parse().ok()?;
            let kind = match text.get(48..49)? {
                "S" => RecordNoticeKind::Served(number),
                "A" => RecordNoticeKind::AskedToLeave,
                "R" => RecordNoticeKind::Removed,
                _ => return None,
            };
            Some(Self { inbox: Inbox(inbox), ticket, kind })
        };
        read().ok_or_else(|| Error::rejected("a notice cannot be read: another program sent it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_read_back_as_it_was_written() {
        for kind in [
            RecordNoticeKind::Served(46),
            RecordNoticeKind::AskedToLeave,
            RecordNoticeKind::Removed,
        ] {
            let notice = RecordNotice { inbox: Inbox(7), ticket: TicketId::fresh(), kind };
            assert_eq!(notice.to_string().parse::<RecordNotice>().unwrap(), notice);
        }
        for garbage in ["", "S", &"0".repeat(49), &"ü".repeat(40)] {
            assert!(garbage.parse::<RecordNotice>().is_err(), "{garbage}");
        }
    }
}
