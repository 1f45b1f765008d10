//! A sink receives the events of a book, and selects the sessions to notify.

use tenure_core::TicketId;
use tenure_core::event::{Event, EventKind};
use tenure_core::line::Journal;

use crate::log::record::OwnerId;
use crate::log::row::Note;

/// A notice for the owner of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) session: OwnerId,
    pub(crate) id: TicketId,
    pub(crate) number: u64,
    pub(crate) what: NoticeKind,
}

/// The content of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// It is served.
    Served,
    /// It was asked to leave, or is out.
    Look,
    /// Another ticket is ahead of it now.
    Behind,
}

/// A receiver of events, with its session.
pub(crate) struct EventSink<'a> {
    pub(crate) own: OwnerId,
    /// A caller in this process waits for news of a ticket.
    pub(crate) heeded: bool,
    pub(crate) journal: &'a mut Journal,
    pub(crate) notices: &'a mut Vec<Notice>,
    /// An event happened that has to be written.
    pub(crate) stirred: bool,
    source: RecordSource,
    at_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordSource {
    /// This process is about to write it, and notifies all sessions.
    Written,
    /// Another process wrote it, and has notified the others.
    Read,
    /// It is known already.
    Old,
}

impl<'a> EventSink<'a> {
    pub(crate) fn new(
        own: OwnerId,
        heeded: bool,
        at_us: u64,
        journal: &'a mut Journal,
        notices: &'a mut Vec<Notice>,
    ) -> Self {
        Self { own, heeded, journal, notices, stirred: false, source: RecordSource::Written, at_us }
    }

    /// Marks the following events as read from the log, with this time.
    pub(crate) fn read(&mut self, at_us: u64, old: bool) {
        self.source = if old { RecordSource::Old } else { RecordSource::Read };
        self.at_us = at_us;
    }

    pub(crate) fn hear(&mut self, note: Note<'_>) {
        if self.source == RecordSource::Old {
            return;
        }
        self.stirred |= self.source == RecordSource::Written;
        match note {
            Note::Behind { session, id, number } => {
                self.tell(Notice { session, id, number, what: NoticeKind::Behind });
            }
            Note::Event(told) => {
                let (seat, what) = (told.slot, told.kind);
                let (session, number) = (seat.session, seat.number);
                if self.journal.is_kept() {
                    let ticket = seat.ticket.clone();
                    self.journal.push(Event::new(what, self.at_us, ticket, number));
                }
                let kind = match what {
                    EventKind::Served => NoticeKind::Served,
                    EventKind::Left | EventKind::Broken | EventKind::Expired => NoticeKind::Look,
                    _ => return,
                };
                self.tell(Notice { session, id: seat.ticket.id, number, what: kind });
            }
        }
    }

    fn tell(&mut self, notice: Notice) {
        let wanted = if notice.session == self.own {
            self.heeded || notice.what == NoticeKind::Behind
        } else {
            self.source == RecordSource::Written
        };
        if wanted {
            self.notices.push(notice);
        }
    }
}
