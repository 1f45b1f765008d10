//! One step on a line: the record is read, requests are carried out, and the record is written.

use std::time::Duration;

use tenure_core::event::EventKind;
use tenure_core::line::{LineEvent, LineObserver};
use tenure_core::{
    Error, Expiry, Key, LeaveMode, LeaveOutcome, Line, Place, Result, Ticket, TicketId,
    TicketState, WaitMode,
};

use crate::contract::{FoundRecord, FreeJoin, LineRecord, RecordChange};
use crate::format::{self, Base, RecordSlot};
use crate::notice::{Inbox, RecordNotice, RecordNoticeKind};

/// A request of this client for one ticket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LineRequest {
    pub(crate) ticket: Ticket,
    pub(crate) verb: LineVerb,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LineVerb {
    Join(WaitMode),
    Renew,
    Leave(LeaveMode),
    /// Reads the ticket's place.
    Look,
}

#[derive(Clone, Debug)]
pub(crate) enum LineAnswer {
    /// The answer to a join, a renewal, and a look.
    At(Option<Place>),
    Left(LeaveOutcome),
    Refused(Error),
}

/// The result of a step: the answers, in the order of the requests, and the change if there is one.
#[derive(Debug)]
pub(crate) struct StepResult {
    pub(crate) answers: Vec<LineAnswer>,
    pub(crate) change: Option<RecordChange>,
}

/// A line that was read from its record.
pub(crate) struct OpenLine {
    line: Line<Option<Inbox>>,
    now_us: u64,
    floor: u64,
    /// When the next ticket expires that has not, or further tickets may be served.
    until_us: u64,
    last: u64,
    /// The largest number of a ticket that was served when the record was written.
    served_to: u64,
    /// The time until further tickets are served.
    closed_for: Option<Duration>,
    is_changed: bool,
    notices: Vec<RecordNotice>,
}

/// Carries out the requests of a client on the line of a key.
///
/// # Errors
///
/// The record cannot be read.
pub(crate) fn carry_out(
    key: &Key,
    found: &FoundRecord,
    inbox: Option<Inbox>,
    requests: &[LineRequest],
) -> Result<StepResult> {
    let mut line = OpenLine::read(key, found)?;
    line.expire();
    let answers = requests.iter().map(|request| line.carry_out(request, inbox)).collect();
    Ok(StepResult { answers, change: line.write() })
}

/// The join of a line without tickets. `None`: the ticket has a floor, so the store cannot choose
/// its number.
pub(crate) fn free_join(ticket: &Ticket, inbox: Option<Inbox>) -> Option<FreeJoin> {
    let base = Base { at_us: 0, last: 1 };
    let ttl_us = format::micros(ticket.ttl);
    let slot = RecordSlot {
        ticket: ticket.clone(),
        session: inbox,
        number: base.last,
        ends: Some(ttl_us),
        leaving: false,
    };
    let tickets = format::write(base, base.last, std::iter::once(&slot));
    let is_exclusive = ticket.share.take() == ticket.share.of();
    (ticket.floor == 0).then_some(FreeJoin { tickets, ttl_us, is_exclusive })
}

impl OpenLine {
    /// # Errors
    ///
    /// The record cannot be read.
    pub(crate) fn read(key: &Key, found: &FoundRecord) -> Result<Self> {
        let fresh = LineRecord::default();
        let record = found.record.as_ref().unwrap_or(&fresh);
        let tickets = format::read(key, record, found.now_us)?;
        let mut line = Line::default();
        for slot in tickets.slots {
            if !line.restore(slot, &mut |_| {}) {
                return Err(format::unreadable(key));
            }
        }
        let left = found.serve_from_us.saturating_sub(found.now_us);
        let ends = line.slots().filter_map(|slot| slot.ends);
        let changes = ends.chain([found.serve_from_us]).filter(|at_us| *at_us > found.now_us);
        let until_us = changes.min().unwrap_or(u64::MAX);
        Ok(Self {
            line,
            now_us: found.now_us,
            floor: found.floor,
            until_us,
            last: record.last,
            served_to: tickets.served_to,
            closed_for: (left > 0).then(|| Duration::from_micros(left)),
            is_changed: false,
            notices: Vec::new(),
        })
    }

    /// Removes expired tickets.
    pub(crate) fn expire(&mut self) {
        self.act(|line, now_us, observer| line.expire(now_us, observer));
    }

    /// The tickets that have not expired, with their places.
    pub(crate) fn list(&self) -> Vec<(Ticket, Place)> {
        let all = self.line.list(self.now_us).into_iter();
        all.map(|(ticket, place)| (ticket, self.seen(place))).collect()
    }

    /// Calls the state machine, and notes the notices of its events.
    fn act<T>(
        &mut self,
        act: impl FnOnce(&mut Line<Option<Inbox>>, u64, &mut LineObserver<'_, Option<Inbox>>) -> T,
    ) -> T {
        let Self { line, notices, is_changed, .. } = self;
        act(line, self.now_us, &mut |LineEvent { kind, slot, .. }| {
            *is_changed = true;
            let kind = match kind {
                EventKind::Broken if slot.leaving => RecordNoticeKind::AskedToLeave,
                EventKind::Broken | EventKind::Left | EventKind::Expired => {
                    RecordNoticeKind::Removed
                }
                // The served tickets are known when all requests are carried out.
                _ => return,
            };
            let ticket = slot.ticket.id;
            notices.extend(slot.session.map(|inbox| RecordNotice { inbox, ticket, kind }));
        })
    }

    fn carry_out(&mut self, request: &LineRequest, inbox: Option<Inbox>) -> LineAnswer {
        let ticket = &request.ticket;
        match request.verb {
            LineVerb::Join(mode) => match self.join(ticket, mode, inbox) {
                Ok(place) => LineAnswer::At(place),
                Err(error) => LineAnswer::Refused(error),
            },
            LineVerb::Renew => {
                let place = self.act(|line, now_us, tell| line.renew(ticket, now_us, tell));
                self.is_changed |= place.is_some_and(|place| !place.leaving);
                LineAnswer::At(place.map(|place| self.seen(place)))
            }
            LineVerb::Leave(mode) => LineAnswer::Left(self.leave(ticket.id, mode)),
            LineVerb::Look => LineAnswer::At(self.place(ticket.id)),
        }
    }

    fn join(
        &mut self,
        ticket: &Ticket,
        mode: WaitMode,
        inbox: Option<Inbox>,
    ) -> Result<Option<Place>> {
        let is_new = self.line.find_place(ticket.id, self.now_us).is_none();
        if is_new && self.closed_for.is_some() && mode == WaitMode::NoWait {
            return Ok(None);
        }
        let mut joining = ticket.clone();
        if is_new {
            // The line knows the numbers of its own tickets, and the record's `last` may be larger.
            joining.floor = ticket.floor.max(self.last + 1).max(self.floor);
        }
        let place = self.act(|line, now_us, observer| {
            line.join(&joining, inbox, mode, Expiry::ByTtl, now_us, observer)
        })?;
        self.last = self.last.max(self.line.last());
        self.is_changed |= place.is_some_and(|place| !place.leaving);
        Ok(place.map(|place| self.seen(place)))
    }

    fn leave(&mut self, id: TicketId, mode: LeaveMode) -> LeaveOutcome {
        let is_waiting = self.place(id).is_some_and(|place| place.state == TicketState::Waiting);
        // While no further tickets are served, the line counts this one as served, and would only
        // ask it to leave.
        let mode = if is_waiting { LeaveMode::Now } else { mode };
        match self.act(|line, now_us, observer| line.leave(id, mode, now_us, observer)) {
            LeaveOutcome::Holding if is_waiting => LeaveOutcome::Waiting,
            outcome => outcome,
        }
    }

    fn place(&self, id: TicketId) -> Option<Place> {
        self.line.find_place(id, self.now_us).map(|place| self.seen(place))
    }

    /// The place as clients see it: while no further tickets are served, a ticket that the line
    /// would serve waits.
    fn seen(&self, place: Place) -> Place {
        match self.closed_for {
            Some(left) if place.number > self.served_to => {
                Place { state: TicketState::Waiting, look: Some(left), ..place }
            }
            _ => place,
        }
    }

    /// The record after the step, if there is a change to write.
    fn write(mut self) -> Option<RecordChange> {
        let (last, at_us) = (self.last.max(self.line.last()), self.now_us);
        let served: Vec<&RecordSlot> = self.line.slots().take(self.line.served()).collect();
        let mut served_to = self.served_to;
        if self.closed_for.is_none() {
            let new = served.iter().filter(|slot| slot.number > served_to);
            self.notices.extend(new.filter_map(|slot| {
                let (ticket, kind) = (slot.ticket.id, RecordNoticeKind::Served(slot.number));
                slot.session.map(|inbox| RecordNotice { inbox, ticket, kind })
            }));
            served_to = served.last().map_or(0, |slot| slot.number);
        }
        let is_grant = served_to > self.served_to;
        if !self.is_changed && self.notices.is_empty() {
            return None;
        }
        let is_holder = |slot: &&&RecordSlot| {
            slot.number <= served_to && slot.ticket.share.take() == slot.ticket.share.of()
        };
        let holder = served.first().filter(is_holder).map_or(0, |slot| slot.number);
        let ends_us = self.line.slots().filter_map(|slot| slot.ends).max().unwrap_or(0);
        let tickets = format::write(Base { at_us, last }, served_to, self.line.slots());
        let record = LineRecord { at_us, last, holder, ends_us, tickets };
        let Self { until_us, notices, .. } = self;
        Some(RecordChange { record, serves: is_grant, until_us, notices })
    }
}

/// The place of a ticket that joined a line without tickets.
pub(crate) fn first_place(ticket: &Ticket, number: u64) -> Place {
    let life = Some(ticket.ttl);
    Place { number, state: TicketState::Holding, ahead: 0, life, look: None, leaving: false }
}
