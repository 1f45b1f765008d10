//! A row is the line of one key, whose tickets belong to sessions, and their notices.

use tenure_core::event::EventKind;
use tenure_core::line::{LineEvent, LineObserver, Slot};
use tenure_core::{
    Expiry, LeaveMode, LeaveOutcome, Line, Place, Result, Ticket, TicketId, TicketState, WaitMode,
};

use crate::log::record::OwnerId;

/// A notice about a row.
pub(crate) enum Note<'a> {
    /// An event of a ticket.
    Event(LineEvent<'a, OwnerId>),
    /// Another ticket is ahead of this waiting one now: its owner watches another session.
    Behind { session: OwnerId, id: TicketId, number: u64 },
}

/// A receiver of all notices.
pub(crate) type Hear<'a> = dyn FnMut(Note<'_>) + 'a;

/// The line of one key.
#[derive(Default)]
pub(crate) struct LogRow {
    line: Line<OwnerId>,
    /// Numbers are above this one, even if the line has forgotten it.
    pub(crate) above: u64,
}

impl LogRow {
    /// Puts a ticket of this session at the back.
    pub(crate) fn join(
        &mut self,
        session: OwnerId,
        ticket: &Ticket,
        patience: WaitMode,
        now_us: u64,
        hear: &mut Hear<'_>,
    ) -> Result<Option<Place>> {
        let now_us = now_us.max(self.above.saturating_add(1));
        self.step(hear, |line, tell| {
            line.join(ticket, session, patience, Expiry::ByOwner, now_us, tell)
        })
    }

    /// Restores a ticket of a record. Returns whether that is possible.
    pub(crate) fn restore(&mut self, seat: Slot<OwnerId>, hear: &mut Hear<'_>) -> bool {
        self.step(hear, |line, tell| line.restore(seat, tell))
    }

    /// Renews a ticket, which may change it.
    pub(crate) fn renew(&mut self, ticket: &Ticket, hear: &mut Hear<'_>) -> Option<Place> {
        self.step(hear, |line, tell| line.renew(ticket, 0, tell))
    }

    /// Removes a ticket.
    pub(crate) fn leave(
        &mut self,
        id: TicketId,
        how: LeaveMode,
        hear: &mut Hear<'_>,
    ) -> LeaveOutcome {
        self.step(hear, |line, tell| line.leave(id, how, 0, tell))
    }

    /// Removes the tickets of a dead session.
    pub(crate) fn bury(&mut self, dead: OwnerId, hear: &mut Hear<'_>) {
        if self.has(dead) {
            self.step(hear, |line, tell| line.remove_where(|seat| seat.session == dead, tell));
        }
    }

    /// Returns whether a session has a ticket here.
    pub(crate) fn has(&self, session: OwnerId) -> bool {
        self.slots().any(|seat| seat.session == session)
    }

    pub(crate) fn place(&self, id: TicketId) -> Option<Place> {
        self.line.find_place(id, 0)
    }

    pub(crate) fn list(&self) -> Vec<(Ticket, Place)> {
        self.line.list(0)
    }

    /// Returns the last number it gave, or has to stay above.
    pub(crate) fn last(&self) -> u64 {
        self.line.last().max(self.above)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Returns the slot with this number.
    pub(crate) fn seat(&self, number: u64) -> Option<&Slot<OwnerId>> {
        self.line.at(self.line.before(number)).filter(|seat| seat.number == number)
    }

    /// Returns all slots, from the front.
    pub(crate) fn slots(&self) -> impl ExactSizeIterator<Item = &Slot<OwnerId>> {
        self.line.slots()
    }

    /// Returns the waiting slots, from the front.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Slot<OwnerId>> {
        self.line.slots().skip(self.line.served())
    }

    /// Returns the sessions whose death the owner of this waiting ticket has to notice.
    ///
    /// ```text
    ///   A  B ┊ C  D  E        C watches A and B, D watches C, E watches D
    /// ```
    /// So every session with a ticket behind it is watched by one of the sessions there, and not by
    /// the whole line.
    pub(crate) fn ahead_of(&self, number: u64) -> impl Iterator<Item = OwnerId> {
        let (at, served) = (self.line.before(number), self.line.served());
        let range = match at {
            at if at < served || self.seat(number).is_none() => 0..0,
            at if at == served => 0..at,
            at => at - 1..at,
        };
        range.filter_map(|at| self.line.at(at)).map(|seat| seat.session)
    }

    /// Carries out one step on the line, and passes on all resulting notices.
    fn step<T>(
        &mut self,
        hear: &mut Hear<'_>,
        act: impl FnOnce(&mut Line<OwnerId>, &mut LineObserver<'_, OwnerId>) -> T,
    ) -> T {
        let (mut somebody_was_served, mut gaps) = (false, Vec::new());
        let answer = act(&mut self.line, &mut |told| {
            match told.kind {
                EventKind::Served => somebody_was_served = true,
                // A holder that is asked to leave keeps its slot; a waiter that is broken loses it.
                EventKind::Left | EventKind::Expired | EventKind::Broken
                    if told.state == TicketState::Waiting =>
                {
                    gaps.push(told.slot.number);
                }
                _ => {}
            }
            hear(Note::Event(told));
        });
        let served = self.line.served();
        // The first waiter watches all served sessions, so it gets a notice when these change. A
        // single one was right ahead of it, and is watched already.
        let first = (somebody_was_served && served > 1).then_some(served);
        let behind = gaps.into_iter().map(|number| self.line.before(number));
        let mut moved: Vec<_> = behind.filter(|at| *at >= served).chain(first).collect();
        moved.sort_unstable();
        moved.dedup();
        for seat in moved.into_iter().filter_map(|at| self.line.at(at)) {
            let (session, id, number) = (seat.session, seat.ticket.id, seat.number);
            hear(Note::Behind { session, id, number });
        }
        answer
    }
}
