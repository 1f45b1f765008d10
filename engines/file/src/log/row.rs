//! A row is a line, and whose tickets stand in it.

use std::collections::{HashSet, VecDeque};

use tenure_core::event::What;
use tenure_core::{Leave, Left, Line, Lives, Patience, Place, Result, Ticket, TicketId};

use crate::log::record::SessionId;

/// What is to be told about a row.
#[derive(Clone, Copy)]
pub(crate) enum Note<'a> {
    /// Something happened to a ticket.
    Event { what: What, session: SessionId, ticket: &'a Ticket, number: u64 },
    /// Somebody else stands ahead of this waiting ticket now: its owner watches over another.
    Behind { session: SessionId, id: TicketId, number: u64 },
}

/// Hears every note.
pub(crate) type Hear<'a> = dyn FnMut(Note<'_>) + 'a;

/// The line of one key.
#[derive(Default)]
pub(crate) struct Row {
    line: Line,
    seats: Seats,
    /// Numbers are above this one, even if the line has forgotten it.
    pub(crate) above: u64,
}

/// A ticket as its row knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seat {
    pub(crate) number: u64,
    pub(crate) id: TicketId,
    pub(crate) session: SessionId,
}

#[derive(Default)]
struct Seats {
    order: VecDeque<Seat>,
    /// How many are served: always the first ones.
    served: usize,
    /// Somebody was served since the last settling.
    grew: bool,
}

impl Row {
    /// Puts a ticket of this session at the back.
    pub(crate) fn join(
        &mut self,
        session: SessionId,
        ticket: &Ticket,
        patience: Patience,
        now_us: u64,
        hear: &mut Hear<'_>,
    ) -> Result<Option<Place>> {
        let Self { line, seats, above } = self;
        let now_us = now_us.max(above.saturating_add(1));
        let place = line.join(ticket, (), patience, Lives::ByOwner, now_us, &mut |told| {
            seats.follow(told.what, &told.seat.ticket, told.seat.number, session, hear);
        });
        self.seats.settle(hear);
        place
    }

    /// A sign of life, which may change the ticket.
    pub(crate) fn renew(&mut self, ticket: &Ticket, hear: &mut Hear<'_>) -> Option<Place> {
        let Self { line, seats, .. } = self;
        let place = line.renew(ticket, 0, &mut |told| {
            seats.follow(told.what, &told.seat.ticket, told.seat.number, NOBODY, hear);
        });
        self.seats.settle(hear);
        place
    }

    /// Takes a ticket out.
    pub(crate) fn leave(&mut self, id: TicketId, how: Leave, hear: &mut Hear<'_>) -> Left {
        let Self { line, seats, .. } = self;
        let left = line.leave(id, how, 0, &mut |told| {
            seats.follow(told.what, &told.seat.ticket, told.seat.number, NOBODY, hear);
        });
        self.seats.settle(hear);
        left
    }

    /// Takes out the tickets of a dead session.
    pub(crate) fn bury(&mut self, dead: SessionId, hear: &mut Hear<'_>) {
        let of_dead = self.seats.order.iter().filter(|seat| seat.session == dead);
        let gone: HashSet<TicketId> = of_dead.map(|seat| seat.id).collect();
        if gone.is_empty() {
            return;
        }
        let Self { line, seats, .. } = self;
        line.bury(|seat| gone.contains(&seat.ticket.id), &mut |told| {
            seats.follow(told.what, &told.seat.ticket, told.seat.number, NOBODY, hear);
        });
        self.seats.settle(hear);
    }

    pub(crate) fn place(&self, id: TicketId) -> Option<Place> {
        self.line.find_place(id, 0)
    }

    pub(crate) fn list(&self) -> Vec<(Ticket, Place)> {
        self.line.list(0)
    }

    /// The last number it gave, or has to stay above.
    pub(crate) fn last(&self) -> u64 {
        self.line.last().max(self.above)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.seats.order.is_empty()
    }

    /// The seat of this number.
    pub(crate) fn seat(&self, number: u64) -> Option<&Seat> {
        self.seats.find(number).map(|at| &self.seats.order[at])
    }

    /// All seats, from the front.
    pub(crate) fn seats(&self) -> impl ExactSizeIterator<Item = &Seat> {
        self.seats.order.iter()
    }

    /// The waiting seats, from the front.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Seat> {
        self.seats.order.range(self.seats.served..)
    }

    /// Whose death has to be noticed by the owner of this waiting ticket.
    ///
    /// ```text
    ///   A  B ┊ C  D  E        C watches over A and B, D over C, E over D
    /// ```
    /// So every session with somebody behind it is watched over by one who stands there, and no
    /// death is watched for by a whole line.
    pub(crate) fn ahead_of(&self, number: u64) -> impl Iterator<Item = SessionId> {
        let at = self.seats.find(number).unwrap_or(0);
        let range = match at {
            at if at < self.seats.served => 0..0,
            at if at == self.seats.served => 0..at,
            at => at - 1..at,
        };
        self.seats.order.range(range).map(|seat| seat.session)
    }
}

/// Stands for the session of events that say by themselves whose they are.
const NOBODY: SessionId = SessionId(0);

impl Seats {
    /// Does what the line did.
    fn follow(
        &mut self,
        what: What,
        ticket: &Ticket,
        number: u64,
        joining: SessionId,
        hear: &mut Hear<'_>,
    ) {
        if what == What::Joined {
            self.order.push_back(Seat { number, id: ticket.id, session: joining });
        }
        let Some(at) = self.find(number) else { return };
        let session = self.order[at].session;
        match what {
            What::Served => {
                self.served = at + 1;
                self.grew = true;
            }
            What::Left | What::Expired => self.remove(at, hear),
            // A holder who is told to go keeps its seat; a waiter who is broken loses it.
            What::Broken if at >= self.served => self.remove(at, hear),
            _ => {}
        }
        hear(Note::Event { what, session, ticket, number });
    }

    fn remove(&mut self, at: usize, hear: &mut Hear<'_>) {
        self.order.remove(at);
        if at < self.served {
            self.served -= 1;
        } else if let Some(behind) = self.order.get(at) {
            hear(Note::Behind { session: behind.session, id: behind.id, number: behind.number });
        }
    }

    /// The first who waits watches over all who are served, so it is told when these are others.
    /// A single one stood right ahead of it, and is watched over already.
    fn settle(&mut self, hear: &mut Hear<'_>) {
        if std::mem::take(&mut self.grew)
            && self.served > 1
            && let Some(first) = self.order.get(self.served)
        {
            hear(Note::Behind { session: first.session, id: first.id, number: first.number });
        }
    }

    fn find(&self, number: u64) -> Option<usize> {
        match self.order.back() {
            Some(last) if last.number == number => Some(self.order.len() - 1),
            _ => self.order.binary_search_by_key(&number, |seat| seat.number).ok(),
        }
    }
}
