//! A herald hears what happens in a book, and sorts out who has to be told.

use tenure_core::TicketId;
use tenure_core::event::{Event, EventKind};
use tenure_core::line::Journal;

use crate::log::record::SessionId;
use crate::log::row::Note;

/// Something that the owner of a ticket has to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) session: SessionId,
    pub(crate) id: TicketId,
    pub(crate) number: u64,
    pub(crate) what: Tidings,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tidings {
    /// It is served.
    Served,
    /// It was told to go, or is out.
    Look,
    /// Somebody else stands ahead of it now.
    Behind,
}

/// Whose ears these are, and what reaches them.
pub(crate) struct Herald<'a> {
    pub(crate) own: SessionId,
    /// Somebody in this process waits for news of a ticket.
    pub(crate) heeded: bool,
    pub(crate) journal: &'a mut Journal,
    pub(crate) notices: &'a mut Vec<Notice>,
    /// Something happened that has to be written.
    pub(crate) stirred: bool,
    source: Source,
    at_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// We are about to write it: we tell everyone.
    Written,
    /// Others wrote it, and have told the others.
    Read,
    /// It is long known.
    Old,
}

impl<'a> Herald<'a> {
    pub(crate) fn new(
        own: SessionId,
        heeded: bool,
        at_us: u64,
        journal: &'a mut Journal,
        notices: &'a mut Vec<Notice>,
    ) -> Self {
        Self { own, heeded, journal, notices, stirred: false, source: Source::Written, at_us }
    }

    /// What follows was read from the log, where it stands as of then.
    pub(crate) fn read(&mut self, at_us: u64, old: bool) {
        self.source = if old { Source::Old } else { Source::Read };
        self.at_us = at_us;
    }

    pub(crate) fn hear(&mut self, note: Note<'_>) {
        if self.source == Source::Old {
            return;
        }
        self.stirred |= self.source == Source::Written;
        match note {
            Note::Behind { session, id, number } => {
                self.tell(Notice { session, id, number, what: Tidings::Behind });
            }
            Note::Event(told) => {
                let (seat, what) = (told.slot, told.kind);
                let (session, number) = (seat.session, seat.number);
                if self.journal.is_kept() {
                    let ticket = seat.ticket.clone();
                    self.journal.push(Event { at_us: self.at_us, kind: what, ticket, number });
                }
                let tidings = match what {
                    EventKind::Served => Tidings::Served,
                    EventKind::Left | EventKind::Broken | EventKind::Expired => Tidings::Look,
                    _ => return,
                };
                self.tell(Notice { session, id: seat.ticket.id, number, what: tidings });
            }
        }
    }

    fn tell(&mut self, notice: Notice) {
        let wanted = if notice.session == self.own {
            self.heeded || notice.what == Tidings::Behind
        } else {
            self.source == Source::Written
        };
        if wanted {
            self.notices.push(notice);
        }
    }
}
