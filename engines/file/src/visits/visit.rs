//! A visit to a book: the book is locked, its state is that of the file, and new records are
//! written before the next one gets in.

use std::fs::File;
use std::io;
use std::sync::{Arc, MutexGuard};

use tenure_core::line::Journal;
use tenure_core::sync::Mutex;
use tenure_core::{Result, TicketId};

use crate::log::event_sink::{EventSink, Notice, NoticeKind};
use crate::log::record::{OwnerId, Record};
use crate::log::row::{Hear, LogRow};
use crate::log::shelf;
use crate::log::state::BookState;
use crate::os::flock::Haste;
use crate::trouble;
use crate::visits::context::{StoreContext, now_us};
use crate::visits::slot::{self, BookSlot};

/// A visit. Ends with [`Visit::finish`].
pub(crate) struct Visit<'a> {
    pub(crate) context: &'a StoreContext,
    pub(crate) now_us: u64,
    /// The time of new records.
    at_us: u64,
    index: usize,
    slot: MutexGuard<'a, BookSlot>,
    watch: Vec<OwnerId>,
    /// Waiters of this process have to look for themselves.
    all_look: bool,
    /// Files that were rewritten, to be closed after the unlock.
    replaced: Vec<Arc<File>>,
    /// The state is ahead of the file.
    stirred: bool,
    over: bool,
}

/// The work after the unlock.
#[derive(Default)]
pub(crate) struct After {
    /// The notices to send.
    pub(crate) notices: Vec<Notice>,
    /// The sessions to watch.
    pub(crate) watch: Vec<OwnerId>,
    /// Every waiter of this process has to look for itself.
    pub(crate) all_look: bool,
    /// Files that are not needed any more. The close of one takes longer than a whole visit.
    pub(crate) replaced: Vec<Arc<File>>,
}

impl<'a> Visit<'a> {
    /// Begins a visit; `None` if others have been in the book for too long.
    pub(crate) fn begin(
        context: &'a StoreContext,
        slot: &'a Mutex<BookSlot>,
        index: usize,
        haste: Haste,
    ) -> Result<Option<Self>> {
        let Some(mut slot) = slot::enter(slot, haste) else { return Ok(None) };
        match slot.catch_up(context, index, haste) {
            Ok(Some(gap)) => {
                let now_us = now_us();
                let at_us = slot.book.as_ref().map_or(now_us, |book| book.moment(now_us));
                let mut visit = Self {
                    context,
                    now_us,
                    at_us,
                    index,
                    slot,
                    watch: Vec::new(),
                    all_look: false,
                    replaced: Vec::new(),
                    stirred: false,
                    over: false,
                };
                if gap {
                    visit.look_everywhere();
                }
                Ok(Some(visit))
            }
            Ok(None) => Ok(None),
            Err(error) => {
                slot.forget();
                Err(error)
            }
        }
    }

    /// Prepares for a new number: the first visit after a start of the machine rewrites the book.
    pub(crate) fn settle(&mut self) -> Result<()> {
        let now_us = self.now_us;
        let book = self.slot.book.as_mut().expect("a visit has a book");
        if !book.is_settled(now_us) {
            let written = book.rewrite(&self.context.books, now_us);
            self.replaced.push(written.map_err(|error| self.refused("write anew", error))?);
        }
        Ok(())
    }

    fn refused(&self, doing: &str, error: io::Error) -> tenure_core::Error {
        let path = self.context.books.path_of(&shelf::name(self.index as u64));
        trouble::refused(doing, &path, error)
    }

    /// Returns the state of the book.
    pub(crate) fn state(&self) -> &BookState {
        &self.slot.book.as_ref().expect("a visit has a book").state
    }

    /// Changes the state of the book; [`record`](Visit::record) must follow if it did.
    pub(crate) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut BookState, &mut Hear<'_>) -> T,
    ) -> T {
        let BookSlot { book, journal, notices, .. } = &mut *self.slot;
        let state = &mut book.as_mut().expect("a visit has a book").state;
        let (own, heeded) = (self.context.session.id, self.context.watchers.any());
        let mut sink = EventSink::new(own, heeded, self.at_us, journal, notices);
        let changed = change(state, &mut |note| sink.hear(note));
        self.stirred |= sink.stirred;
        changed
    }

    /// Decides on a record.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        self.record_as_of(record, self.at_us);
    }

    /// The same, with another time.
    pub(crate) fn record_as_of(&mut self, record: &Record<'_>, at_us: u64) {
        self.slot.book.as_mut().expect("a visit has a book").push(record, at_us);
    }

    /// Returns the book's file, for a flush.
    pub(crate) fn file(&self) -> Arc<File> {
        self.slot.book.as_ref().expect("a visit has a book").file().clone()
    }

    /// See [`Book::anchor`](crate::log::book::Book::anchor).
    pub(crate) fn anchor(&self) -> io::Result<()> {
        let book = self.slot.book.as_ref().expect("a visit has a book");
        book.anchor(&self.context.books, &self.context.root)
    }

    /// Returns the events for this engine's onlookers.
    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.slot.journal
    }

    /// Watches this session for its death.
    pub(crate) fn watch(&mut self, session: OwnerId) {
        if session != self.context.session.id && !self.watch.contains(&session) {
            self.watch.push(session);
        }
    }

    /// Removes the tickets of a dead session.
    pub(crate) fn bury(&mut self, dead: OwnerId) {
        if self.change(|state, hear| state.bury(dead, hear)) {
            self.record(&Record::Gone { session: dead });
        }
    }

    /// Removes the tickets of a session if it is dead. Returns whether it is.
    pub(crate) fn bury_if_dead(&mut self, session: OwnerId) -> bool {
        let dead = session != self.context.session.id && self.context.peers.is_dead(session);
        if dead {
            self.bury(session);
        }
        dead
    }

    /// Notifies the first of every line: a dead process may have died before it notified the
    /// tickets it served.
    pub(crate) fn tell_the_first(&mut self) {
        let behind = |row: &LogRow| {
            let seat = row.waiting().next()?;
            let (session, id, number) = (seat.session, seat.ticket.id, seat.number);
            Some(Notice { session, id, number, what: NoticeKind::Behind })
        };
        let first: Vec<_> = self.state().rows.values().filter_map(behind).collect();
        self.slot.notices.extend(first);
    }

    /// Watches the sessions that are ahead of this ticket now.
    pub(crate) fn look_behind(&mut self, id: TicketId, number: u64) {
        let session = self.context.session.id;
        self.slot.notices.push(Notice { session, id, number, what: NoticeKind::Behind });
    }

    /// Looks for every event whose notice may be lost.
    pub(crate) fn look_everywhere(&mut self) {
        let own = self.context.session.id;
        let waiting = self.state().rows.values().flat_map(LogRow::waiting);
        let mine = waiting.filter(|seat| seat.session == own);
        let mine: Vec<_> = mine.map(|seat| (seat.ticket.id, seat.number)).collect();
        for (id, number) in mine {
            self.look_behind(id, number);
        }
        self.all_look = true;
    }

    /// Writes the new records, and unlocks. Returns the work that is left.
    pub(crate) fn finish<T>(mut self, answer: Result<T>) -> (Result<T>, After) {
        self.over = true;
        let book = self.slot.book.as_mut().expect("a visit has a book");
        let written = if answer.is_ok() && book.is_pending() { book.write() } else { Ok(()) };
        if written.is_err() || (answer.is_err() && (self.stirred || book.is_pending())) {
            // The state is ahead of the file: it is read again.
            self.slot.forget();
            let written = written.map_err(|error| self.refused("write to", error));
            return (written.and(answer), After { all_look: true, ..After::default() });
        }
        self.shorten();
        self.watch_over_those_ahead();
        let after = After {
            notices: std::mem::take(&mut self.slot.notices),
            watch: std::mem::take(&mut self.watch),
            all_look: self.all_look,
            replaced: std::mem::take(&mut self.replaced),
        };
        let book = self.slot.book.as_ref().expect("a visit has a book");
        if book.file().unlock().is_err() {
            self.slot.forget();
        }
        drop(self);
        (answer, after)
    }

    fn shorten(&mut self) {
        let (index, now_us) = (self.index, self.now_us);
        let book = self.slot.book.as_mut().expect("a visit has a book");
        if !book.is_long() {
            return;
        }
        match book.rewrite(&self.context.books, now_us) {
            Ok(old) => self.replaced.push(old),
            Err(error) => {
                book.put_off();
                tracing::warn!(%error, book = index, "a log could not be written anew and gets longer");
            }
        }
    }

    /// Watches the session ahead of every own ticket, if that has changed.
    fn watch_over_those_ahead(&mut self) {
        let own = self.context.session.id;
        let mine = |notice: &&Notice| notice.session == own && notice.what == NoticeKind::Behind;
        let moved: Vec<_> = self.slot.notices.iter().filter(mine).cloned().collect();
        for Notice { id, number, .. } in moved {
            let stands = |row: &&LogRow| row.seat(number).is_some_and(|seat| seat.ticket.id == id);
            let row = self.state().rows.values().find(stands);
            let ahead: Vec<_> = row.into_iter().flat_map(|row| row.ahead_of(number)).collect();
            for session in ahead {
                self.watch(session);
            }
        }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.over {
            // After a panic the file is right, but the memory may not be. The close unlocks it.
            self.slot.forget();
        }
    }
}
