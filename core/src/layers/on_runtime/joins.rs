//! Unanswered joins, to know which of them certainly never reached the engine.
//!
//! A released ticket has to be removed for as long as a join of it may still happen. A join that
//! was cancelled before the runtime started it cannot happen.

use std::ops::Range;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

use crate::sync::Mutex;
use crate::{Error, ExpiringMap, Result, TicketId, Time};

/// The tickets whose last join has no answer.
#[derive(Default)]
pub(super) struct Joins {
    tickets: Mutex<Tickets>,
    /// Number of tickets. If it is zero, the lock is not taken.
    count: AtomicUsize,
}

#[derive(Default)]
struct Tickets {
    /// Whether one of its joins has begun and may still happen. Entries expire with the ticket.
    begun: ExpiringMap<bool>,
    /// Until when tickets without an entry may be alive, because the map was full. Their joins may
    /// have begun.
    beyond: Option<Time>,
}

/// One join, from the request to the answer.
pub(super) struct Join<'a> {
    joins: &'a Joins,
    id: TicketId,
    /// The time in which it may happen.
    goes_on: Range<Time>,
    /// `None`: it began on the caller's task.
    state: Option<Arc<State>>,
    answered: bool,
}

/// Whether a join has begun, agreed between its caller and the runtime.
#[derive(Default)]
pub(super) struct State(AtomicU8);

const ASKED: u8 = 0;
const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl State {
    /// The runtime begins the join. Returns `false` if the caller is gone.
    pub(super) fn begin(&self) -> bool {
        self.0.compare_exchange(ASKED, BEGUN, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The caller cancels the join. Returns whether it has begun.
    fn give_up(&self) -> bool {
        self.0.swap(GIVEN_UP, Ordering::AcqRel) == BEGUN
    }
}

impl Joins {
    /// A ticket is about to join. The runtime calls [`State::begin`] before it starts.
    pub(super) fn ask(&self, id: TicketId, goes_on: Range<Time>) -> (Join<'_>, Arc<State>) {
        let state = Arc::<State>::default();
        let join = Join { joins: self, id, goes_on, state: Some(state.clone()), answered: false };
        (join, state)
    }

    /// A ticket joins at once, on the caller's task.
    pub(super) fn begin_in_place(&self, id: TicketId, goes_on: Range<Time>) -> Join<'_> {
        Join { joins: self, id, goes_on, state: None, answered: false }
    }

    /// Whether the ticket had joins, and none of them has begun.
    pub(super) fn never_began(&self, id: TicketId, now: Time) -> bool {
        !self.is_empty() && self.lock().begun.get(id, now).is_some_and(|begun| !begun)
    }

    /// Forgets a ticket whose state is known.
    pub(super) fn forget(&self, id: TicketId) {
        if !self.is_empty() {
            let mut tickets = self.lock();
            tickets.begun.forget(id);
            self.count.store(tickets.begun.len(), Ordering::Release);
        }
    }

    fn note(&self, id: TicketId, begun: bool, Range { start: now, end: until }: Range<Time>) {
        let mut tickets = self.lock();
        let before = tickets.begun.forget(id).filter(|(_, lives)| !now.has_reached(*lives));
        let (begun, until) = match before {
            Some((before, lives)) => (begun || before, until.max(lives)),
            None if tickets.beyond.is_some_and(|beyond| !now.has_reached(beyond)) => (true, until),
            None => (begun, until),
        };
        if !tickets.begun.note(id, begun, now, until) {
            let beyond = tickets.beyond.map_or(until, |beyond| beyond.max(until));
            tickets.beyond = Some(beyond);
        }
        self.count.store(tickets.begun.len(), Ordering::Release);
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    fn lock(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock()
    }
}

impl Join<'_> {
    /// Records the answer. Unless it is unknown, the ticket's state is known.
    pub(super) fn came_to<T>(mut self, answer: &Result<T>) {
        if !answer.as_ref().is_err_and(Error::is_retryable) {
            self.answered = true;
            self.joins.forget(self.id);
        }
    }
}

impl Drop for Join<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let has_begun = self.state.as_ref().is_none_or(|state| state.give_up());
            self.joins.note(self.id, has_begun, self.goes_on.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::toolbox::expiring_map::MOST;

    const NOW: Time = Time { boot_ns: 1, raw_ns: 1 };

    fn from(now: Time) -> Range<Time> {
        now..now.plus(Duration::from_secs(1))
    }

    fn ask(joins: &Joins, id: TicketId) -> (Join<'_>, Arc<State>) {
        joins.ask(id, from(NOW))
    }

    fn join(joins: &Joins, id: TicketId) -> Join<'_> {
        ask(joins, id).0
    }

    #[test]
    fn a_join_never_began_if_none_before_it_did() {
        let (joins, id) = (Joins::default(), TicketId::fresh());
        assert!(!joins.never_began(id, NOW), "there was none");
        let (first, state) = ask(&joins, id);
        drop(first);
        assert!(joins.never_began(id, NOW));
        assert!(!state.begin(), "and it never will");

        let (second, state) = ask(&joins, id);
        assert!(state.begin());
        drop(second);
        assert!(!joins.never_began(id, NOW));
        drop(join(&joins, id));
        assert!(!joins.never_began(id, NOW), "the second may still come");
        joins.forget(id);
        drop(join(&joins, id));
        assert!(joins.never_began(id, NOW));
        drop(joins.begin_in_place(id, from(NOW)));
        assert!(!joins.never_began(id, NOW), "one began without the runtime");
        joins.forget(id);
        drop(joins.begin_in_place(id, from(NOW)));
        drop(join(&joins, id));
        assert!(!joins.never_began(id, NOW), "whatever comes after it");
        join(&joins, id).came_to(&Err::<(), _>(Error::unavailable("no answer")));
        assert!(!joins.never_began(id, NOW), "that says nothing of it");
        join(&joins, id).came_to(&Ok(()));
        assert!(!joins.never_began(id, NOW) && joins.is_empty());
    }

    #[test]
    fn those_for_whom_there_is_no_room_are_never_said_not_to_have_begun() {
        let joins = Joins::default();
        let ids: Vec<_> = (0..MOST).map(|_| TicketId::fresh()).collect();
        for id in &ids {
            drop(join(&joins, *id));
        }
        let one = TicketId::fresh();
        let (first, state) = ask(&joins, one);
        assert!(state.begin());
        drop(first);
        assert_eq!(joins.count.load(Ordering::Relaxed), MOST);
        for id in ids {
            joins.forget(id);
        }
        drop(join(&joins, one));
        assert!(!joins.never_began(one, NOW), "the first may still come");
        let later = from(NOW).end;
        drop(joins.ask(one, from(later)));
        assert!(joins.never_began(one, later));
    }
}
