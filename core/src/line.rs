//! A line of tickets, as a pure state machine: time is an argument, and nothing is touched.

pub mod bell;
pub(crate) mod memory;
pub(crate) mod sample;
mod sync;

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::contract::ticket::{LINE_TICKETS_MAX, NUMBER_MAX};
use crate::event::What;
use crate::{
    Leave, Left, Patience, Place, Result, Share, Standing, Ticket, TicketId, refusal, served,
};

/// Up to this many tickets are found by looking at each; more are found through an index.
const SCAN_TICKETS_MAX: usize = 16;

/// The line of one key. The memory engine keeps it in a map, the file engine replays it from a log;
/// for every other engine it is the model that the engine is compared with.
///
/// `now` is the store's clock in microseconds since 1970. It also makes the numbers, so that even a
/// line that has been forgotten goes on above what it had.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::{Key, Leave, Left, Line, Lives, Patience, Standing, Ticket};
///
/// # use tenure_core::{Share, TicketId};
/// # fn ticket(key: &str, share: Share) -> tenure_core::Result<Ticket> {
/// #     let (id, key, ttl) = (TicketId::fresh(), Key::new(key)?, Duration::from_secs(30));
/// #     Ok(Ticket { id, key, share, ttl, owner: "me".into(), note: "".into(), floor: 0 })
/// # }
/// let (mut line, mut told) = (Line::default(), Vec::new());
/// let (first, second) = (ticket("a", Share::WHOLE)?, ticket("a", Share::WHOLE)?);
/// let mut tell = |what, _: &Ticket, number: u64| told.push((what, number));
/// let now = 1_000_000;
/// line.join(&first, Patience::Wait, Lives::ByTtl, now, &mut tell)?;
/// let waits = line.join(&second, Patience::Wait, Lives::ByTtl, now, &mut tell)?.expect("it waits");
/// assert_eq!((waits.number, waits.standing), (1_000_001, Standing::Waiting));
/// assert_eq!(line.leave(first.id, Leave::Now, now, &mut tell), Left::Holding);
/// let place = line.find_place(second.id, now).expect("it is in the line");
/// assert_eq!(place.standing, Standing::Holding);
/// assert_eq!(told.len(), 5, "two joined, one left, and each was served");
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Line {
    tickets: VecDeque<Box<Entry>>,
    /// Where each ticket is, by its number, once there are too many to look at each.
    index: HashMap<TicketId, u64>,
    /// How many tickets are served: always the first ones.
    served: usize,
    /// What the served tickets take.
    taken: u64,
    /// What all tickets take.
    wanted: u64,
    /// The last number that was given.
    last: u64,
    /// No ticket's life ends before this.
    quiet_until: u64,
}

#[derive(Debug)]
struct Entry {
    ticket: Ticket,
    number: u64,
    /// `NEVER` where the store learns by itself that the owner is gone.
    ends: u64,
    told: bool,
}

impl Entry {
    fn take(&self) -> u64 {
        self.ticket.share.take().into()
    }
}

const NEVER: u64 = u64::MAX;

/// Told of everything that happens to the line, in order: what, to which ticket, and its number.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::{Key, Line, Lives, Patience, Tell, Ticket, event::What};
///
/// # use tenure_core::{Share, TicketId};
/// # fn ticket(key: &str, share: Share) -> tenure_core::Result<Ticket> {
/// #     let (id, key, ttl) = (TicketId::fresh(), Key::new(key)?, Duration::from_secs(30));
/// #     Ok(Ticket { id, key, share, ttl, owner: "me".into(), note: "".into(), floor: 0 })
/// # }
/// fn first_to_be_served(tell: &mut Tell<'_>) -> tenure_core::Result<()> {
///     let ticket = ticket("a", Share::WHOLE)?;
///     Line::default().join(&ticket, Patience::Wait, Lives::ByTtl, 0, tell).map(drop)
/// }
/// let mut whats = Vec::new();
/// first_to_be_served(&mut |what, _ticket, _number| whats.push(what))?;
/// assert_eq!(whats, [What::Joined, What::Served]);
/// # Ok::<(), tenure_core::Error>(())
/// ```
pub type Tell<'a> = dyn FnMut(What, &Ticket, u64) + 'a;

/// What makes a ticket in a line leave by itself.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::{Key, Line, Lives, Patience, Ticket};
///
/// # use tenure_core::{Share, TicketId};
/// # fn ticket(key: &str, share: Share) -> tenure_core::Result<Ticket> {
/// #     let (id, key, ttl) = (TicketId::fresh(), Key::new(key)?, Duration::from_secs(30));
/// #     Ok(Ticket { id, key, share, ttl, owner: "me".into(), note: "".into(), floor: 0 })
/// # }
/// let (mut leased, mut owned) = (Line::default(), Line::default());
/// let ticket = ticket("a", Share::WHOLE)?;
/// let leased = leased.join(&ticket, Patience::Wait, Lives::ByTtl, 0, &mut |_, _, _| {})?;
/// let owned = owned.join(&ticket, Patience::Wait, Lives::ByOwner, 0, &mut |_, _, _| {})?;
/// assert_eq!(leased.and_then(|place| place.life), Some(ticket.ttl));
/// assert_eq!(owned.and_then(|place| place.life), None);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lives {
    /// Its ttl, unless it is renewed.
    ByTtl,
    /// Nothing: the engine takes out the tickets of the dead.
    ByOwner,
}

impl Line {
    /// A line whose numbers are above `last`.
    pub fn above(last: u64) -> Self {
        Self { last, quiet_until: NEVER, ..Self::default() }
    }

    /// Puts a ticket at the back. See [`Engine::join`](crate::Engine::join).
    pub fn join(
        &mut self,
        ticket: &Ticket,
        patience: Patience,
        lives: Lives,
        now: u64,
        tell: &mut Tell<'_>,
    ) -> Result<Option<Place>> {
        self.expire(now, tell);
        if let Some(at) = self.find(ticket.id) {
            let owner = &self.tickets[at].ticket.owner;
            if *owner != ticket.owner {
                return Err(refusal::id_of_another(&ticket.key, ticket.id, owner));
            }
            return Ok(self.renew(ticket, now, tell));
        }
        self.refuse_mixed(ticket)?;
        let at_once = served(self.wanted, ticket.share);
        if patience == Patience::NoWait && !at_once {
            return Ok(None);
        }
        if self.tickets.len() >= LINE_TICKETS_MAX {
            return Err(refusal::line_is_full(&ticket.key));
        }
        let number = (self.last + 1).max(now).max(ticket.floor);
        if number > NUMBER_MAX {
            return Err(refusal::no_numbers_left(&ticket.key, number));
        }
        let ends = match lives {
            Lives::ByTtl => now.saturating_add(micros(ticket.ttl)).min(NEVER - 1),
            Lives::ByOwner => NEVER,
        };
        self.push(Entry { ticket: ticket.clone(), number, ends, told: false });
        tell(What::Joined, ticket, number);
        self.serve(tell);
        Ok(Some(self.place(self.tickets.len() - 1, now)))
    }

    /// A sign of life. See [`Engine::renew`](crate::Engine::renew).
    pub fn renew(&mut self, ticket: &Ticket, now: u64, tell: &mut Tell<'_>) -> Option<Place> {
        self.expire(now, tell);
        let at = self.find(ticket.id)?;
        let entry = &mut self.tickets[at];
        if entry.told {
            return Some(self.place(at, now));
        }
        if entry.ends != NEVER {
            entry.ends = entry.ends.max(now.saturating_add(micros(ticket.ttl)).min(NEVER - 1));
        }
        self.last = self.last.max(ticket.floor.min(NUMBER_MAX));
        self.change(at, ticket, tell);
        Some(self.place(at, now))
    }

    /// Takes a ticket out. See [`Engine::leave`](crate::Engine::leave).
    pub fn leave(&mut self, id: TicketId, how: Leave, now: u64, tell: &mut Tell<'_>) -> Left {
        self.expire(now, tell);
        let Some(at) = self.find(id) else { return Left::Absent };
        let holding = at < self.served;
        if how == Leave::Soon && holding {
            let entry = &mut self.tickets[at];
            if !std::mem::replace(&mut entry.told, true) {
                tell(What::Broken, &entry.ticket, entry.number);
            }
            return Left::Told;
        }
        let what = match how {
            Leave::Now => What::Left,
            Leave::Soon => What::Broken,
        };
        self.remove(at, what, tell);
        self.serve(tell);
        if holding { Left::Holding } else { Left::Waiting }
    }

    /// Takes out the tickets of an owner who is known to be gone.
    pub fn bury(&mut self, gone: impl Fn(&Ticket) -> bool, tell: &mut Tell<'_>) {
        self.remove_all(|entry| gone(&entry.ticket), tell);
    }

    /// Takes out the tickets whose life has ended.
    pub fn expire(&mut self, now: u64, tell: &mut Tell<'_>) {
        if now >= self.quiet_until {
            self.remove_all(|entry| entry.ends <= now, tell);
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

    /// Where a ticket stands, if it is in the line.
    pub fn find_place(&self, id: TicketId, now: u64) -> Option<Place> {
        self.find(id).map(|at| self.place(at, now))
    }

    /// How many tickets there are.
    pub fn len(&self) -> usize {
        self.tickets.len()
    }

    /// Whether there is nobody.
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
                Err(refusal::other_capacity(&ticket.key, kept.into(), ticket.share))
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, entry: Entry) {
        self.last = entry.number;
        self.wanted += entry.take();
        self.quiet_until = self.quiet_until.min(entry.ends);
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
            // Who is handed the lock stands here, and a search would touch a dozen cold tickets.
            return Some(0);
        }
        self.tickets.binary_search_by_key(&number, |entry| entry.number).ok()
    }

    fn remove(&mut self, at: usize, what: What, tell: &mut Tell<'_>) {
        let Some(entry) = self.tickets.remove(at) else { return };
        let take = entry.take();
        self.wanted -= take;
        if at < self.served {
            self.served -= 1;
            self.taken -= take;
        }
        self.index.remove(&entry.ticket.id);
        if self.tickets.is_empty() {
            self.quiet_until = NEVER;
        }
        tell(what, &entry.ticket, entry.number);
    }

    /// Those who left by themselves are all out before anyone is served in their place.
    fn remove_all(&mut self, gone: impl Fn(&Entry) -> bool, tell: &mut Tell<'_>) {
        for at in (0..self.tickets.len()).rev() {
            if gone(&self.tickets[at]) {
                self.remove(at, What::Expired, tell);
            }
        }
        self.quiet_until = self.tickets.iter().map(|entry| entry.ends).min().unwrap_or(NEVER);
        self.serve(tell);
    }

    fn change(&mut self, at: usize, ticket: &Ticket, tell: &mut Tell<'_>) {
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
        tell(What::Changed, &entry.ticket, entry.number);
        self.wanted -= shrunk;
        if at < self.served {
            self.taken -= shrunk;
        }
        self.serve(tell);
    }

    /// The front of the line is served, for as long as it fits.
    fn serve(&mut self, tell: &mut Tell<'_>) {
        while let Some(entry) = self.tickets.get(self.served) {
            if !served(self.taken, entry.ticket.share) {
                return;
            }
            self.served += 1;
            self.taken += entry.take();
            tell(What::Served, &entry.ticket, entry.number);
        }
    }

    fn place(&self, at: usize, now: u64) -> Place {
        let ahead = if at + 1 == self.tickets.len() {
            self.wanted - self.tickets[at].take()
        } else {
            self.tickets.range(..at).map(|entry| entry.take()).sum()
        };
        self.place_behind(at, ahead, self.first_end(), now)
    }

    /// When the first of the served tickets ends, unless it is renewed.
    fn first_end(&self) -> Option<u64> {
        let ends = self.tickets.range(..self.served).map(|entry| entry.ends).min();
        ends.filter(|ends| *ends != NEVER)
    }

    fn place_behind(&self, at: usize, ahead: u64, first_end: Option<u64>, now: u64) -> Place {
        let entry = &self.tickets[at];
        let remaining = |ends: u64| Duration::from_micros(ends.saturating_sub(now));
        let holding = at < self.served;
        Place {
            number: entry.number,
            standing: if holding { Standing::Holding } else { Standing::Waiting },
            ahead,
            life: (entry.ends != NEVER).then(|| remaining(entry.ends)),
            look: first_end.filter(|_| !holding).map(remaining),
            leaving: entry.told,
        }
    }
}

/// A time in the store's own unit; what is too long for it never ends.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(NEVER)
}
