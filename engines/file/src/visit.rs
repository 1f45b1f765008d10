//! A visit to a book: it is locked, its state is that of the file, and what is decided is written
//! before anybody else gets in.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

use tenure_core::{Error, Result, TicketId, Wake};

use crate::book;
use crate::header::Header;
use crate::herald::{Herald, Notice, Tidings};
use crate::journal::Journal;
use crate::record::{Record, SessionId};
use crate::row::{Hear, Row};
use crate::slot::{self, Haste, Slot};
use crate::state::State;
use crate::store::{Store, boot, now_us};
use crate::trouble;

/// One visit. Ends with [`Visit::finish`].
pub(crate) struct Visit<'a> {
    pub(crate) store: &'a Store,
    pub(crate) now_us: u64,
    /// When what is decided here has happened, for those who read it.
    at_us: u64,
    index: usize,
    slot: MutexGuard<'a, Slot>,
    watch: Vec<SessionId>,
    /// The state is ahead of the file.
    stirred: bool,
    over: bool,
}

impl<'a> Visit<'a> {
    /// Gets in. `None`: others have been in there for too long.
    pub(crate) fn begin(store: &'a Store, index: usize, haste: Haste) -> Result<Option<Self>> {
        let Some(mut slot) = slot::enter(&store.slots[index], haste) else { return Ok(None) };
        match slot.catch_up(store, index, haste) {
            Ok(Some(gap)) => {
                let now_us = now_us();
                let at_us = slot.book.as_ref().map_or(now_us, |book| book.moment(now_us));
                let (watch, stirred, over) = (Vec::new(), false, false);
                let mut visit = Self { store, now_us, at_us, index, slot, watch, stirred, over };
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

    /// What the book says.
    pub(crate) fn state(&self) -> &State {
        &self.slot.book.as_ref().expect("a visit has a book").state
    }

    /// Changes what the book says; [`record`](Visit::record) must follow if it did.
    pub(crate) fn change<T>(&mut self, change: impl FnOnce(&mut State, &mut Hear<'_>) -> T) -> T {
        let Slot { book, journal, notices, .. } = &mut *self.slot;
        let state = &mut book.as_mut().expect("a visit has a book").state;
        let (own, heeded) = (self.store.session.id, self.store.watchers.any());
        let mut herald = Herald::new(own, heeded, self.at_us, journal, notices);
        let changed = change(state, &mut |note| herald.hear(note));
        self.stirred |= herald.stirred;
        changed
    }

    /// Decides that this has happened.
    pub(crate) fn record(&mut self, record: &Record<'_>) {
        self.record_as_of(record, self.at_us);
    }

    /// The same, for what happened at another time.
    pub(crate) fn record_as_of(&mut self, record: &Record<'_>, at_us: u64) {
        self.slot.book.as_mut().expect("a visit has a book").push(record, at_us);
    }

    /// The book's file, for those who want it on the disk.
    pub(crate) fn file(&self) -> Arc<File> {
        self.slot.book.as_ref().expect("a visit has a book").file().clone()
    }

    /// See [`Book::anchor`](crate::book::Book::anchor).
    pub(crate) fn anchor(&mut self, dirs: &[&Path]) -> io::Result<()> {
        self.slot.book.as_mut().expect("a visit has a book").anchor(dirs)
    }

    /// What this engine's onlookers can be told of the book.
    pub(crate) fn journal(&mut self) -> &mut Journal {
        &mut self.slot.journal
    }

    /// Sees to it that the death of this session is noticed.
    pub(crate) fn watch(&mut self, session: SessionId) {
        if session != self.store.session.id && !self.watch.contains(&session) {
            self.watch.push(session);
        }
    }

    /// Takes out the tickets of a session that is dead.
    pub(crate) fn bury(&mut self, dead: SessionId) {
        if self.change(|state, hear| state.bury(dead, hear)) {
            self.record(&Record::Gone { session: dead });
        }
    }

    /// Takes out the tickets of a session if it is dead. Says whether it is.
    pub(crate) fn bury_if_dead(&mut self, session: SessionId) -> bool {
        let dead = session != self.store.session.id && self.store.peers.is_dead(session);
        if dead {
            self.bury(session);
        }
        dead
    }

    /// Whoever died may have died before telling those it served: tell the first of every line.
    pub(crate) fn tell_the_first(&mut self) {
        let first = |row: &Row| row.waiting().next().copied();
        for seat in self.state().rows.values().filter_map(first).collect::<Vec<_>>() {
            let (session, id, number) = (seat.session, seat.id, seat.number);
            self.slot.notices.push(Notice { session, id, number, what: Tidings::Behind });
        }
    }

    /// Has those watched over who stand ahead of this ticket now.
    pub(crate) fn look_behind(&mut self, id: TicketId, number: u64) {
        let session = self.store.session.id;
        self.slot.notices.push(Notice { session, id, number, what: Tidings::Behind });
    }

    /// Looks for everything that a lost message would have told.
    pub(crate) fn look_everywhere(&mut self) {
        let own = self.store.session.id;
        let mine = |row: &Row| row.waiting().filter(|seat| seat.session == own).copied().collect();
        let mine: Vec<Vec<_>> = self.state().rows.values().map(mine).collect();
        for seat in mine.into_iter().flatten() {
            self.look_behind(seat.id, seat.number);
        }
        self.store.watchers.notify_all();
    }

    /// Writes what was decided, lets others in, and then tells who has to know.
    pub(crate) fn finish<T>(mut self, answer: Result<T>) -> Result<T> {
        self.over = true;
        let (store, index) = (self.store, self.index);
        let book = self.slot.book.as_mut().expect("a visit has a book");
        let written = if answer.is_ok() && book.is_pending() { book.write() } else { Ok(()) };
        if written.is_err() || (answer.is_err() && self.stirred) {
            // The state is ahead of the file: it is read again.
            self.slot.forget();
            store.watchers.notify_all();
            written.map_err(|error| {
                trouble::refused("write to", &book::path(&store.books, index), error)
            })?;
            return answer;
        }
        if book.is_long()
            && let Err(error) =
                book.rewrite(&store.books, Header { boot: boot(), ..book.header() }, self.now_us)
        {
            book.put_off();
            tracing::warn!(%error, book = index, "a log could not be written anew and gets longer");
        }
        self.watch_over_those_ahead();
        let (notices, watch) =
            (std::mem::take(&mut self.slot.notices), std::mem::take(&mut self.watch));
        let book = self.slot.book.as_ref().expect("a visit has a book");
        if book.file().unlock().is_err() {
            self.slot.forget();
        }
        drop(self);
        store.tell(index, &notices);
        for session in watch {
            store.watch(session);
        }
        answer
    }

    /// For every own ticket that has somebody else ahead of it now.
    fn watch_over_those_ahead(&mut self) {
        let own = self.store.session.id;
        let mine = |notice: &&Notice| notice.session == own && notice.what == Tidings::Behind;
        let moved: Vec<_> = self.slot.notices.iter().filter(mine).cloned().collect();
        for Notice { id, number, .. } in moved {
            let stands = |row: &&Row| row.seat(number).is_some_and(|seat| seat.id == id);
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
            // A panic: the file is right, what is in memory may not be. Closing it unlocks it.
            self.slot.forget();
        }
    }
}

impl Store {
    /// Passes on what a visit has found out.
    fn tell(&self, book: usize, notices: &[Notice]) {
        for notice in notices {
            match notice.what {
                _ if notice.session != self.session.id => self.bells.ring(book, notice),
                Tidings::Served => self.watchers.notify(notice.id, Wake::Served(notice.number)),
                Tidings::Look => self.watchers.notify(notice.id, Wake::Look),
                Tidings::Behind => {}
            }
        }
    }

    /// Visits a book and does something there. `None`: others have been there for too long.
    pub(crate) fn visit<T>(
        &self,
        index: usize,
        haste: Haste,
        act: impl FnOnce(&mut Visit<'_>) -> Result<T>,
    ) -> Option<Result<T>> {
        match Visit::begin(self, index, haste) {
            Ok(Some(mut visit)) => {
                let answer = act(&mut visit);
                Some(visit.finish(answer))
            }
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// The same, however long it takes.
    pub(crate) fn visit_patiently<T>(
        &self,
        index: usize,
        act: impl FnOnce(&mut Visit<'_>) -> Result<T>,
    ) -> Result<T> {
        let visited = self.visit(index, Haste::Patient, act);
        visited.unwrap_or_else(|| Err(Error::unavailable("a lock was waited for, and not got")))
    }
}
