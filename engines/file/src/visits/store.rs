//! A store is a directory with a fixed set of books, and the sessions that use it.

use std::sync::{Arc, Weak};

use tenure_core::sync::Mutex;
use tenure_core::{Error, Result, Wake};

use crate::log::event_sink::NoticeKind;
use crate::log::record::OwnerId;
use crate::log::shelf::{self, BOOKS};
use crate::os::dir::Dir;
use crate::os::flock::{Haste, Patience};
use crate::sessions::peers::Watched;
use crate::trouble::held;
use crate::visits::context::StoreContext;
use crate::visits::helper::{Helper, HelperAnswer};
use crate::visits::slot::BookSlot;
use crate::visits::visit::{After, Visit};
use crate::waking::cursors::Cursors;
use crate::waking::event_watchers::EventWatchers;
use crate::waking::fifo::{FifoMessage, Fifos};

/// One engine value's view of a store.
pub(crate) struct StoreView {
    pub(crate) context: StoreContext,
    pub(crate) event_watchers: EventWatchers,
    pub(crate) cursors: Mutex<Cursors>,
    fifos: Fifos,
    slots: Box<[Mutex<BookSlot>]>,
    helpers: Box<[Helper]>,
    me: Weak<Self>,
}

impl StoreView {
    /// Opens the store in this directory, and makes it if there is none.
    pub(crate) fn open(root: Dir) -> Result<Arc<Self>> {
        let context = StoreContext::open(root)?;
        Ok(Arc::new_cyclic(|me| Self {
            fifos: Fifos::new(context.sessions.clone(), context.session.id),
            context,
            event_watchers: EventWatchers::new(),
            cursors: Mutex::default(),
            slots: (0..BOOKS).map(|_| Mutex::default()).collect(),
            helpers: (0..BOOKS).map(|_| Helper::default()).collect(),
            me: me.clone(),
        }))
    }

    /// Releases everything. Other processes clean up the rest.
    pub(crate) fn close(&self) {
        let own = self.context.session.id;
        for (index, slot) in self.slots.iter().enumerate() {
            if has(slot, own) {
                let left = self.visit(index, Haste::Quick, |visit| {
                    visit.bury(own);
                    Ok(())
                });
                // Waiters learn it from the end of the session otherwise.
                drop(left);
            }
        }
        self.event_watchers.close();
        self.context.peers.close();
        self.fifos.close();
        self.context.session.end();
    }

    /// Visits a book and runs a function there; `None` if others have been there for too long.
    pub(crate) fn visit<T>(
        &self,
        index: usize,
        haste: Haste,
        act: impl FnOnce(&mut Visit<'_>) -> Result<T>,
    ) -> Option<Result<T>> {
        let mut visit = match Visit::begin(&self.context, &self.slots[index], index, haste) {
            Ok(Some(visit)) => visit,
            Ok(None) => return None,
            Err(error) => return Some(Err(error)),
        };
        let answer = act(&mut visit);
        let (answer, after) = visit.finish(answer);
        self.do_after(index, after);
        Some(answer)
    }

    /// Runs a function in a book: now, or as soon as a process that blocks it has left.
    pub(crate) async fn at<A, T>(
        self: &Arc<Self>,
        index: usize,
        subject: &A,
        act: impl Fn(&mut Visit<'_>, &A) -> Result<T> + Send + 'static,
    ) -> Result<T>
    where
        A: Clone + Send + 'static,
        T: Send + 'static,
    {
        self.at_until(index, None, subject, act).await
    }

    /// The same, for a verb that began before.
    pub(crate) async fn at_until<A, T>(
        self: &Arc<Self>,
        index: usize,
        patience: Option<Patience>,
        subject: &A,
        act: impl Fn(&mut Visit<'_>, &A) -> Result<T> + Send + 'static,
    ) -> Result<T>
    where
        A: Clone + Send + 'static,
        T: Send + 'static,
    {
        if let Some(answer) = self.visit(index, Haste::Quick, |visit| act(visit, subject)) {
            return answer;
        }
        let subject = subject.clone();
        let patience = patience.unwrap_or_else(Patience::begin);
        self.later(index, patience, move |visit| act(visit, &subject)).await
    }

    /// Runs a function in a book as soon as it can be entered, without blocking the caller.
    pub(crate) fn later<T: Send + 'static>(
        &self,
        index: usize,
        patience: Patience,
        act: impl FnOnce(&mut Visit<'_>) -> Result<T> + Send + 'static,
    ) -> HelperAnswer<T> {
        let me = self.me.clone();
        self.helpers[index].ask(move |wanted| {
            let unwanted = || Error::unavailable("nobody waits for this any more");
            let store = me.upgrade().ok_or_else(unwanted)?;
            let act = |visit: &mut Visit<'_>| if wanted() { act(visit) } else { Err(unwanted()) };
            let visited =
                store.helpers[index].get_in(patience, |haste| store.visit(index, haste, act));
            visited.unwrap_or_else(|| Err(store.held(index)))
        })
    }

    /// Returns the error for a process that does not leave this book.
    fn held(&self, index: usize) -> Error {
        let (books, name) = (&self.context.books, shelf::name(index as u64));
        held(&books.path_of(&name), books.look(&*name).ok().flatten().map(|look| look.id))
    }

    /// Sends the notices of a visit, and starts its watches.
    fn do_after(&self, book: usize, after: After) {
        let (own, watchers) = (self.context.session.id, &self.context.watchers);
        for notice in &after.notices {
            match notice.what {
                _ if notice.session != own => self.fifos.tell(book, notice),
                NoticeKind::Served => watchers.notify(notice.id, Wake::Served(notice.number)),
                NoticeKind::Look => watchers.notify(notice.id, Wake::Look),
                NoticeKind::Behind => {}
            }
        }
        if after.all_look {
            watchers.notify_all();
        }
        for session in after.watch {
            self.watch(book, session);
        }
        if !after.replaced.is_empty() {
            // If another thread cannot close it, it is closed here.
            let _ = self.helpers[book].tell(move || drop(after.replaced));
        }
    }

    /// Ensures that other processes can notify this session.
    pub(crate) fn listen(&self) -> Result<()> {
        let me = self.me.clone();
        self.fifos.listen(move |heard| {
            if let Some(store) = me.upgrade() {
                store.heed(heard);
            }
        })
    }

    fn heed(&self, heard: FifoMessage) {
        let watchers = &self.context.watchers;
        match heard {
            FifoMessage::Told { id, number, what: NoticeKind::Served, .. } => {
                watchers.notify(id, Wake::Served(number));
            }
            FifoMessage::Told { id, what: NoticeKind::Look, .. } => watchers.notify(id, Wake::Look),
            FifoMessage::Told { book, id, number, what: NoticeKind::Behind } => {
                self.look_into(book, move |visit| visit.look_behind(id, number));
            }
            FifoMessage::TooMuch => {
                for book in 0..BOOKS {
                    self.look_into(book, look_everywhere);
                }
            }
        }
    }

    /// Looks into a book that this engine knows: now, or as soon as it can be entered.
    fn look_into(&self, index: usize, look: impl Fn(&mut Visit<'_>) + Send + 'static) {
        // A visitor makes it known, if it was not.
        let known = |slot: &Mutex<BookSlot>| slot.try_lock().is_none_or(|slot| slot.known);
        if !self.slots.get(index).is_some_and(known) {
            return;
        }
        let looked = self.visit(index, Haste::Quick, |visit| {
            look(visit);
            Ok(())
        });
        match looked {
            Some(Ok(())) => {}
            Some(Err(_)) => self.context.watchers.notify_all(),
            None => self.look_later(index, look),
        }
    }

    fn look_later(&self, index: usize, look: impl Fn(&mut Visit<'_>) + Send + 'static) {
        let (me, patience) = (self.me.clone(), Patience::begin());
        let told = self.helpers[index].tell(move || {
            let Some(store) = me.upgrade() else { return };
            let looked = store.helpers[index].get_in(patience, |haste| {
                store.visit(index, haste, |visit| {
                    look(visit);
                    Ok(())
                })
            });
            if !matches!(looked, Some(Ok(()))) {
                store.context.watchers.notify_all();
            }
        });
        if told.is_err() {
            self.context.watchers.notify_all();
        }
    }

    /// Watches a session for its death, because it is ahead in this book.
    fn watch(&self, book: usize, session: OwnerId) {
        let me = self.me.clone();
        let died = move || {
            if let Some(store) = me.upgrade() {
                store.died(session);
            }
        };
        // Of a dead one, another thread removes the tickets: those ahead of them may be dead as
        // well, and a thousand such visits inside each other would take a long stack.
        let is_over = self.context.peers.watch(session, died.clone()) == Watched::IsDead;
        if is_over && self.helpers[book].tell(died).is_err() {
            self.context.watchers.notify_all();
        }
    }

    /// Removes a dead session from every book that this engine has looked into.
    fn died(&self, session: OwnerId) {
        for index in 0..BOOKS {
            self.look_into(index, move |visit| {
                if visit.bury_if_dead(session) {
                    visit.tell_the_first();
                }
            });
        }
        if self.context.peers.is_dead(session) {
            self.fifos.forget(session);
            self.context.peers.forget(session);
        }
    }
}

fn look_everywhere(visit: &mut Visit<'_>) {
    visit.look_everywhere();
}

fn has(slot: &Mutex<BookSlot>, session: OwnerId) -> bool {
    let slot = slot.try_lock();
    slot.is_some_and(|slot| slot.book.as_ref().is_some_and(|book| book.state.has(session)))
}
