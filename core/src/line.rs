//! A line of tickets, as a pure state machine. Time is an argument.

pub(crate) mod change;
mod count;
mod journal;
mod slot;
mod value;

pub use self::change::changes;
pub use self::count::Count;
pub use self::journal::Journal;
use self::slot::NEVER;
pub use self::slot::{LineEvent, LineObserver, Slot};
pub use self::value::swap;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::contract::ticket::{LINE_TICKETS_MAX, NUMBER_MAX};
use crate::event::EventKind;
use crate::{
    LeaveMode, LeaveOutcome, Place, Result, Share, Ticket, TicketId, TicketState, WaitMode, errors,
    served,
};

/// Maximum tickets in a line without an index: a search looks at each.
const SCAN_TICKETS_MAX: usize = 16;

/// The line of one key. The memory engine has lines in a map, and the file engine replays them from
/// a log. For every other engine it is the model that tests compare the engine with.
///
/// `now` is the store's clock in microseconds since 1970. It also makes the numbers, so a new line
/// of the same key has larger numbers than a forgotten one.
///
/// ```
/// use tenure::engine::line::LineEvent;
/// use tenure::engine::{Expiry, LeaveMode, Line, WaitMode};
/// use tenure::inspect::{LeaveOutcome, Share, Ticket, TicketState};
/// use tenure::Key;
///
/// let (mut line, mut events) = (Line::default(), Vec::new());
/// let keys = [Key::new("a")?, Key::new("a")?];
/// let [first, second] = keys.map(|key| Ticket::new(key, Share::WHOLE));
/// let mut observer = |event: LineEvent<'_>| events.push((event.kind, event.slot.number));
/// let now = 1_000_000;
/// line.join(&first, (), WaitMode::Wait, Expiry::ByTtl, now, &mut observer)?;
/// let waits = line.join(&second, (), WaitMode::Wait, Expiry::ByTtl, now, &mut observer)?;
/// let waits = waits.expect("it waits");
/// assert_eq!((waits.number, waits.state), (1_000_001, TicketState::Waiting));
/// assert_eq!(line.leave(first.id, LeaveMode::Now, now, &mut observer), LeaveOutcome::Holding);
/// let place = line.find_place(second.id, now).expect("it is in the line");
/// assert_eq!(place.state, TicketState::Holding);
/// assert_eq!(events.len(), 5, "two joined, one left, and each was served");
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Debug)]
pub struct Line<S = ()> {
    tickets: VecDeque<Box<Slot<S>>>,
    /// The number of each ticket, if there are more than [`SCAN_TICKETS_MAX`].
    index: HashMap<TicketId, u64>,
    /// Number of served tickets, which are always the first ones.
    served: usize,
    /// Sum of the shares of the served tickets.
    taken: u64,
    /// Sum of the shares of all tickets.
    wanted: u64,
    /// The last number that was given.
    last: u64,
    /// No ticket expires before this.
    quiet_until: u64,
}

/// How a ticket in a line expires.
///
/// ```
/// use tenure::engine::{Expiry, Line, WaitMode};
/// use tenure::inspect::{Share, Ticket};
/// use tenure::Key;
///
/// let (mut leased, mut owned) = (Line::default(), Line::default());
/// let ticket = Ticket::new(Key::new("a")?, Share::WHOLE);
/// let leased = leased.join(&ticket, (), WaitMode::Wait, Expiry::ByTtl, 0, &mut |_| {})?;
/// let owned = owned.join(&ticket, (), WaitMode::Wait, Expiry::ByOwner, 0, &mut |_| {})?;
/// assert_eq!(leased.and_then(|place| place.life), Some(ticket.ttl));
/// assert_eq!(owned.and_then(|place| place.life), None);
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// After its ttl, unless it is renewed.
    ByTtl,
    /// Never: the engine removes the tickets of dead owners.
    ByOwner,
}

impl<S> Default for Line<S> {
    /// A line that never gave a number.
    fn default() -> Self {
        Self::above(0)
    }
}

impl<S> Line<S> {
    /// A line whose numbers are above `last`.
    pub fn above(last: u64) -> Self {
        Self {
            tickets: VecDeque::new(),
            index: HashMap::new(),
            served: 0,
            taken: 0,
            wanted: 0,
            last,
            quiet_until: NEVER,
        }
    }

    /// Puts a ticket of this session at the back. See [`Engine::join`](crate::Engine::join).
    ///
    /// # Errors
    ///
    /// The line is full, has another capacity, or has no numbers left; the id is that of another
    /// ticket.
    pub fn join(
        &mut self,
        ticket: &Ticket,
        session: S,
        patience: WaitMode,
        lives: Expiry,
        now: u64,
        tell: &mut LineObserver<'_, S>,
    ) -> Result<Option<Place>> {
        self.expire(now, tell);
        if let Some(at) = self.find(ticket.id) {
            let owner = &self.tickets[at].ticket.owner;
            if *owner != ticket.owner {
                return Err(errors::id_of_another(&ticket.key, ticket.id, owner));
            }
            return Ok(self.renew(ticket, now, tell));
        }
        self.refuse_mixed(ticket)?;
        let at_once = served(self.wanted, ticket.share);
        if patience == WaitMode::NoWait && !at_once {
            return Ok(None);
        }
        if self.tickets.len() >= LINE_TICKETS_MAX {
            return Err(errors::line_is_full(&ticket.key));
        }
        let number = (self.last + 1).max(now).max(ticket.floor);
        if number > NUMBER_MAX {
            return Err(errors::no_numbers_left(&ticket.key, number));
        }
        let ends = match lives {
            Expiry::ByTtl => Some(end_of(ticket.ttl, now)),
            Expiry::ByOwner => None,
        };
        self.seat(Slot { ticket: ticket.clone(), session, number, ends, leaving: false }, tell);
        Ok(Some(self.place(self.tickets.len() - 1, now)))
    }

    /// Restores a stored slot. Slots must be restored in the order of their numbers. Returns
    /// `false` for a slot that cannot be in this line: a smaller number, another capacity, or a
    /// second slot of a ticket.
    pub fn restore(&mut self, seat: Slot<S>, tell: &mut LineObserver<'_, S>) -> bool {
        let known = self.find(seat.ticket.id).is_some();
        let full = self.tickets.len() >= LINE_TICKETS_MAX;
        let above = seat.number > self.last && seat.number <= NUMBER_MAX;
        // A ticket that was asked to leave and is still in the line holds.
        let odd = seat.leaving && !served(self.wanted, seat.ticket.share);
        if known || full || !above || odd || self.refuse_mixed(&seat.ticket).is_err() {
            return false;
        }
        self.seat(seat, tell);
        true
    }

    /// Renews a ticket. See [`Engine::renew`](crate::Engine::renew).
    pub fn renew(
        &mut self,
        ticket: &Ticket,
        now: u64,
        tell: &mut LineObserver<'_, S>,
    ) -> Option<Place> {
        self.expire(now, tell);
        let at = self.find(ticket.id)?;
        let entry = &mut self.tickets[at];
        if entry.leaving {
            return Some(self.place(at, now));
        }
        entry.ends = entry.ends.map(|ends| ends.max(end_of(ticket.ttl, now)));
        self.last = self.last.max(ticket.floor.min(NUMBER_MAX));
        self.change(at, ticket, tell);
        Some(self.place(at, now))
    }

    /// Removes a ticket. See [`Engine::leave`](crate::Engine::leave).
    pub fn leave(
        &mut self,
        id: TicketId,
        how: LeaveMode,
        now: u64,
        tell: &mut LineObserver<'_, S>,
    ) -> LeaveOutcome {
        self.expire(now, tell);
        let Some(at) = self.find(id) else { return LeaveOutcome::Absent };
        let holding = at < self.served;
        if how == LeaveMode::Graceful && holding {
            let seat = &mut *self.tickets[at];
            if !std::mem::replace(&mut seat.leaving, true) {
                tell(LineEvent {
                    kind: EventKind::Broken,
                    slot: seat,
                    state: TicketState::Holding,
                });
            }
            return LeaveOutcome::Requested;
        }
        let what = match how {
            LeaveMode::Now => EventKind::Left,
            LeaveMode::Graceful => EventKind::Broken,
        };
        self.remove(at, what, tell);
        self.serve(tell);
        if holding { LeaveOutcome::Holding } else { LeaveOutcome::Waiting }
    }

    /// Removes the tickets of an owner that is known to be dead.
    pub fn remove_where(
        &mut self,
        gone: impl Fn(&Slot<S>) -> bool,
        tell: &mut LineObserver<'_, S>,
    ) {
        self.remove_all(gone, tell);
    }

    /// Removes expired tickets.
    pub fn expire(&mut self, now: u64, tell: &mut LineObserver<'_, S>) {
        if now >= self.quiet_until {
            self.remove_all(|entry| entry.end() <= now, tell);
        }
    }

    /// The tickets with their places, from the front.
    pub fn list(&self, now: u64) -> Vec<(Ticket, Place)> {
        let mut ahead = 0;
        let first_end = self.first_end();
        let mut list = Vec::with_capacity(self.tickets.len());
        for (at, entry) in self.tickets.iter().enumerate() {
            list.push((entry.ticket.clone(), self.place_behind(at, ahead, first_end, now)));
            ahead += entry.take();
        }
        list
    }

    /// The place of a ticket, if it is in the line.
    pub fn find_place(&self, id: TicketId, now: u64) -> Option<Place> {
        self.find(id).map(|at| self.place(at, now))
    }

    /// The slots of the line, from the front. An engine may store and [restore](Line::restore)
    /// them.
    pub fn slots(&self) -> impl DoubleEndedIterator<Item = &Slot<S>> + ExactSizeIterator {
        self.tickets.iter().map(|seat| &**seat)
    }

    /// Number of served tickets, which are always the first ones.
    pub fn served(&self) -> usize {
        self.served
    }

    /// Number of tickets ahead of this number. If the ticket is in the line, that is its index.
    pub fn before(&self, number: u64) -> usize {
        match self.tickets.back() {
            Some(last) if last.number == number => self.tickets.len() - 1,
            _ => self.tickets.partition_point(|seat| seat.number < number),
        }
    }

    /// The slot at this index.
    pub fn at(&self, index: usize) -> Option<&Slot<S>> {
        self.tickets.get(index).map(|seat| &**seat)
    }

    /// Number of tickets.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// Whether the line has no ticket.
    pub fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    /// The last number that was given.
    pub fn last(&self) -> u64 {
        self.last
    }

    fn refuse_mixed(&self, ticket: &Ticket) -> Result<()> {
        let of = ticket.share.of();
        match self.tickets.front().map(|entry| entry.ticket.share.of()) {
            Some(kept) if kept != of => {
                Err(errors::other_capacity(&ticket.key, kept.into(), ticket.share))
            }
            _ => Ok(()),
        }
    }

    fn seat(&mut self, seat: Slot<S>, tell: &mut LineObserver<'_, S>) {
        let leaving = seat.leaving;
        self.push(seat);
        if let Some(seat) = self.tickets.back() {
            tell(LineEvent { kind: EventKind::Joined, slot: seat, state: TicketState::Waiting });
        }
        self.serve(tell);
        if let Some(seat) = self.tickets.back().filter(|_| leaving) {
            tell(LineEvent { kind: EventKind::Broken, slot: seat, state: TicketState::Holding });
        }
    }

    fn push(&mut self, entry: Slot<S>) {
        self.last = entry.number;
        self.wanted += entry.take();
        self.quiet_until = self.quiet_until.min(entry.end());
        if self.tickets.is_empty() {
            self.tickets.reserve_exact(1);
        }
        if !self.index.is_empty() {
            self.index.insert(entry.ticket.id, entry.number);
        }
        self.tickets.push_back(Box::new(entry));
        if self.index.is_empty() && self.tickets.len() > SCAN_TICKETS_MAX {
            self.index = self.tickets.iter().map(|entry| (entry.ticket.id, entry.number)).collect();
        }
    }

    fn find(&self, id: TicketId) -> Option<usize> {
        if self.index.is_empty() {
            return self.tickets.iter().position(|entry| entry.ticket.id == id);
        }
        let number = *self.index.get(&id)?;
        if self.tickets.front().is_some_and(|first| first.number == number) {
            // Usually the ticket that was just served is here, and a search would touch cold
            // memory.
            return Some(0);
        }
        self.tickets.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    fn remove(&mut self, at: usize, what: EventKind, tell: &mut LineObserver<'_, S>) {
        let Some(entry) = self.tickets.remove(at) else { return };
        let take = entry.take();
        let standing = self.standing(at);
        self.wanted -= take;
        if standing == TicketState::Holding {
            self.served -= 1;
            self.taken -= take;
        }
        self.index.remove(&entry.ticket.id);
        if self.tickets.is_empty() {
            self.quiet_until = NEVER;
        }
        tell(LineEvent { kind: what, slot: &entry, state: standing });
    }

    /// All expired tickets are removed before the next ones are served.
    fn remove_all(&mut self, gone: impl Fn(&Slot<S>) -> bool, tell: &mut LineObserver<'_, S>) {
        for at in (0..self.tickets.len()).rev() {
            if gone(&self.tickets[at]) {
                self.remove(at, EventKind::Expired, tell);
            }
        }
        self.quiet_until = self.tickets.iter().map(|entry| entry.end()).min().unwrap_or(NEVER);
        self.serve(tell);
    }

    fn change(&mut self, at: usize, ticket: &Ticket, tell: &mut LineObserver<'_, S>) {
        let standing = self.standing(at);
        let entry = &mut self.tickets[at];
        let take = ticket.share.take().min(entry.ticket.share.take());
        let shrunk = u64::from(entry.ticket.share.take() - take);
        if shrunk == 0 && entry.ticket.note == ticket.note {
            return;
        }
        entry.ticket.note = ticket.note.clone();
        if shrunk > 0 {
            entry.ticket.share = Share::new(take, entry.ticket.share.of())
                .expect("a smaller share of the same capacity is a share");
        }
        tell(LineEvent { kind: EventKind::Changed, slot: entry, state: standing });
        self.wanted -= shrunk;
        if at < self.served {
            self.taken -= shrunk;
        }
        self.serve(tell);
    }

    /// Serves the tickets at the front, as many as fit.
    fn serve(&mut self, tell: &mut LineObserver<'_, S>) {
        while let Some(entry) = self.tickets.get(self.served) {
            if !served(self.taken, entry.ticket.share) {
                return;
            }
            self.served += 1;
            self.taken += entry.take();
            tell(LineEvent { kind: EventKind::Served, slot: entry, state: TicketState::Holding });
        }
    }

    fn standing(&self, at: usize) -> TicketState {
        if at < self.served { TicketState::Holding } else { TicketState::Waiting }
    }

    fn place(&self, at: usize, now: u64) -> Place {
        let ahead = if at + 1 == self.tickets.len() {
            self.wanted - self.tickets[at].take()
        } else {
            self.tickets.range(..at).map(|entry| entry.take()).sum()
        };
        self.place_behind(at, ahead, self.first_end(), now)
    }

    /// When the first of the served tickets expires, unless it is renewed.
    fn first_end(&self) -> Option<u64> {
        let ends = self.tickets.range(..self.served).map(|entry| entry.end()).min();
        ends.filter(|ends| *ends != NEVER)
    }

    fn place_behind(&self, at: usize, ahead: u64, first_end: Option<u64>, now: u64) -> Place {
        let entry = &self.tickets[at];
        let remaining = |ends: u64| Duration::from_micros(ends.saturating_sub(now));
        let standing = self.standing(at);
        Place {
            number: entry.number,
            state: standing,
            ahead,
            life: entry.ends.map(remaining),
            look: first_end.filter(|_| standing == TicketState::Waiting).map(remaining),
            leaving: entry.leaving,
        }
    }
}

/// The expiry of a ttl that begins now.
fn end_of(ttl: Duration, now: u64) -> u64 {
    now.saturating_add(micros(ttl)).min(NEVER - 1)
}

/// A duration in microseconds, the store's unit. A longer one saturates.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(NEVER)
}
