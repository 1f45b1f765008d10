//! One step on a line: the record is read, requests are carried out, and the record is written.

use std::time::Duration;

use tenure_core::event::EventKind;
use tenure_core::line::{LineEvent, LineObserver};
use tenure_core::{
    Error, Expiry, Key, LeaveMode, LeaveOutcome, Line, Place, Result, Ticket, TicketId,
    TicketState, WaitMode,
};

use crate::contract::{FoundRecord, LineRecord, LoneStep, LoneVerb, RecordChange};
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

/// The step of a request whose ticket may be alone in its line. `None`: the request needs the whole
/// line, or raises the numbers above a floor.
pub(crate) fn lone_step(request: &LineRequest, inbox: Option<Inbox>) -> Option<LoneStep> {
    let ticket = &request.ticket;
    let verb = match request.verb {
        LineVerb::Join(_) if ticket.floor == 0 => LoneVerb::Join,
        LineVerb::Renew if ticket.floor == 0 => LoneVerb::Renew,
        LineVerb::Leave(LeaveMode::Now) => LoneVerb::Leave,
        _ => return None,
    };
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
    Some(LoneStep { verb, tickets, ttl_us, is_exclusive })
}

/// The answer to a request whose lone step was carried out.
pub(crate) fn lone_answer(request: &LineRequest, number: u64) -> LineAnswer {
    let (state, life) = (TicketState::Holding, Some(request.ticket.ttl));
    match request.verb {
        LineVerb::Leave(_) => LineAnswer::Left(LeaveOutcome::Holding),
        _ => LineAnswer::At(Some(Place {
            number,
            state,
            ahead: 0,
            life,
            look: None,
            leaving: false,
        })),
    }
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

    /// The place as clients see it. While no further tickets are served, a ticket that the line
    /// would serve waits. The first of these looks when that is over, and its step serves all of
    /// them. The others look later, in case it has left.
    fn seen(&self, place: Place) -> Place {
        let Some(left) = self.closed_for.filter(|_| place.number > self.served_to) else {
            return place;
        };
        let mut unserved = self.line.slots().filter(|slot| slot.number > self.served_to);
        let is_first = unserved.next().is_none_or(|first| first.number >= place.number);
        let later = left * 8;
        let look = if is_first { left } else { place.look.map_or(later, |look| look.min(later)) };
        Place { state: TicketState::Waiting, look: Some(look), ..place }
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

#[cfg(test)]
mod tests {
    use tenure_core::Share;

    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn found(record: Option<LineRecord>, now_us: u64) -> FoundRecord {
        FoundRecord { record, now_us, floor: now_us + 7, serve_from_us: 0 }
    }

    /// The record after a step on the whole line, which is the lone step's too where there is one.
    fn record_after(
        found: &FoundRecord,
        request: &LineRequest,
        inbox: Option<Inbox>,
    ) -> LineRecord {
        let requests = std::slice::from_ref(request);
        let step = carry_out(&request.ticket.key, found, inbox, requests).unwrap();
        let record = step.change.map_or_else(|| found.record.clone().unwrap(), |it| it.record);
        let alone = lone_step(request, inbox).and_then(|lone| lone.record_after(found));
        if let Some(alone) = alone {
            assert_eq!(alone, record, "{request:?}");
            let answer = lone_answer(request, alone.last);
            assert_eq!(format!("{answer:?}"), format!("{:?}", step.answers[0]));
        }
        record
    }

    #[test]
    fn a_lone_step_writes_the_record_and_has_the_answer_of_a_step_on_the_whole_line() {
        for share in [Share::WHOLE, Share::READER, Share::new(2, 5).unwrap()] {
            let ticket = Ticket { ttl: TTL, ..Ticket::new(Key::new("k").unwrap(), share) };
            let inbox = Some(Inbox(9));
            let request = |verb| LineRequest { ticket: ticket.clone(), verb };
            let is_lone = |verb, found: &FoundRecord| {
                lone_step(&request(verb), inbox).unwrap().record_after(found).is_some()
            };
            let [join, renew] = [LineVerb::Join(WaitMode::Wait), LineVerb::Renew];
            let leave = LineVerb::Leave(LeaveMode::Now);

            let empty = found(None, 1_000);
            assert!(is_lone(join, &empty) && !is_lone(renew, &empty) && !is_lone(leave, &empty));
            let joined = found(Some(record_after(&empty, &request(join), inbox)), 5_000_000);
            assert!(!is_lone(join, &joined) && is_lone(renew, &joined) && is_lone(leave, &joined));
            let renewed = Some(record_after(&joined, &request(renew), inbox));
            let left = record_after(&found(renewed.clone(), 6_000_000), &request(leave), inbox);
            assert!(is_lone(join, &found(Some(left.clone()), 6_000_001)));
            record_after(&found(Some(left), 6_000_001), &request(join), inbox);

            // The clock was set back, and the lease has ended.
            record_after(&found(renewed.clone(), 4_000_000), &request(renew), inbox);
            let ended = found(renewed, 5_000_000 + format::micros(TTL));
            assert!(!is_lone(renew, &ended) && !is_lone(leave, &ended));
        }
    }

    #[test]
    fn a_ticket_that_is_not_alone_or_may_not_be_served_has_no_lone_step() {
        let key = Key::new("k").unwrap();
        let [ticket, other] = [(); 2].map(|()| Ticket::new(key.clone(), Share::READER));
        let request = |ticket: &Ticket, verb| LineRequest { ticket: ticket.clone(), verb };
        let join = LineVerb::Join(WaitMode::Wait);
        let mut line = found(None, 1_000);
        for ticket in [&ticket, &other] {
            line.record = Some(record_after(&line, &request(ticket, join), None));
        }
        let step = |verb| lone_step(&request(&ticket, verb), None);
        for verb in [join, LineVerb::Renew, LineVerb::Leave(LeaveMode::Now)] {
            assert_eq!(step(verb).unwrap().record_after(&line), None, "{verb:?}");
        }
        let closed = FoundRecord { serve_from_us: 1_001, ..found(None, 1_000) };
        assert_eq!(step(join).unwrap().record_after(&closed), None);
        // A ticket that was asked to leave must learn it.
        let mut line = found(None, 1_000);
        line.record = Some(record_after(&line, &request(&ticket, join), None));
        let asked = request(&ticket, LineVerb::Leave(LeaveMode::Graceful));
        line.record = Some(record_after(&line, &asked, None));
        assert_eq!(step(LineVerb::Renew).unwrap().record_after(&line), None);
        assert_eq!(step(LineVerb::Leave(LeaveMode::Graceful)), None);
        assert_eq!(step(LineVerb::Look), None);
        let above = Ticket { floor: 5_000, ..ticket };
        assert_eq!(lone_step(&request(&above, join), None), None);
        assert_eq!(lone_step(&request(&above, LineVerb::Renew), None), None);
    }
}
