//! The line against the plainest thing that could be right: a list that is looked through every
//! time.

use std::time::Duration;

use proptest::prelude::*;
use tenure_core::event::EventKind;
use tenure_core::line::{LineEvent, Slot};
use tenure_core::{
    Expiry, Key, LeaveMode, LeaveOutcome, Line, NUMBER_MAX, Note, Owner, Share, Ticket, TicketId,
    TicketState, WaitMode, served,
};

#[derive(Clone, Debug)]
struct Plain {
    ticket: Ticket,
    number: u64,
    ends: u64,
    told: bool,
}

/// A simple model of the line, without counters, indexes or short cuts.
#[derive(Debug, Default)]
struct Model {
    line: Vec<Plain>,
    last: u64,
}

impl Model {
    fn expire(&mut self, now: u64) {
        self.line.retain(|plain| plain.ends > now);
    }

    fn at(&self, id: TicketId) -> Option<usize> {
        self.line.iter().position(|plain| plain.ticket.id == id)
    }

    fn ahead(&self, at: usize) -> u64 {
        self.line[..at].iter().map(|plain| u64::from(plain.ticket.share.take())).sum()
    }

    fn holds(&self, at: usize) -> bool {
        served(self.ahead(at), self.line[at].ticket.share)
    }

    fn join(&mut self, ticket: &Ticket, patience: WaitMode, now: u64) -> Option<u64> {
        self.expire(now);
        if self.at(ticket.id).is_some() {
            return self.renew(ticket, now);
        }
        if patience == WaitMode::NoWait && !served(self.ahead(self.line.len()), ticket.share) {
            return None;
        }
        let number = (self.last + 1).max(now).max(ticket.floor);
        self.last = number;
        let ends = now + micros(ticket.ttl);
        self.line.push(Plain { ticket: ticket.clone(), number, ends, told: false });
        Some(number)
    }

    fn renew(&mut self, ticket: &Ticket, now: u64) -> Option<u64> {
        self.expire(now);
        let plain = self.line.iter_mut().find(|plain| plain.ticket.id == ticket.id)?;
        if plain.told {
            return Some(plain.number);
        }
        plain.ends = plain.ends.max(now + micros(ticket.ttl));
        let take = plain.ticket.share.take().min(ticket.share.take());
        plain.ticket.share = Share::new(take, plain.ticket.share.of()).unwrap();
        let number = plain.number;
        self.last = self.last.max(ticket.floor);
        Some(number)
    }

    fn leave(&mut self, id: TicketId, how: LeaveMode, now: u64) -> LeaveOutcome {
        self.expire(now);
        let Some(at) = self.at(id) else { return LeaveOutcome::Absent };
        let holding = self.holds(at);
        if how == LeaveMode::Graceful && holding {
            self.line[at].told = true;
            return LeaveOutcome::Requested;
        }
        self.line.remove(at);
        if holding { LeaveOutcome::Holding } else { LeaveOutcome::Waiting }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Join { who: usize, take: u32, ttl_us: u64, wait: bool, floor: u64 },
    Renew { who: usize, take: u32 },
    Leave { who: usize, soon: bool },
    Pass { us: u64 },
}

const OF: u32 = 5;
const WHO: usize = 40;

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..WHO, 1..=OF, 1..5000_u64, any::<bool>(), 0..3000_u64).prop_map(
            |(who, take, ttl_us, wait, floor)| Step::Join { who, take, ttl_us, wait, floor }
        ),
        2 => (0..WHO, 1..=OF).prop_map(|(who, take)| Step::Renew { who, take }),
        2 => (0..WHO, any::<bool>()).prop_map(|(who, soon)| Step::Leave { who, soon }),
        1 => (0..2000_u64).prop_map(|us| Step::Pass { us }),
    ]
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap()
}

fn ticket(id: TicketId, take: u32, ttl_us: u64, floor: u64) -> Ticket {
    Ticket {
        id,
        key: Key::new("k").unwrap(),
        share: Share::new(take, OF).unwrap(),
        ttl: Duration::from_micros(ttl_us),
        owner: Owner::shortened("o"),
        note: Note::default(),
        floor,
    }
}

/// Every reported ticket is served once, and never before those ahead of it.
#[derive(Default)]
struct Heard {
    served: Vec<u64>,
    out: Vec<u64>,
}

impl Heard {
    fn hear(&mut self, what: EventKind, number: u64) {
        match what {
            EventKind::Served => {
                assert!(!self.served.contains(&number), "{number} is served twice");
                assert!(self.served.last().is_none_or(|last| *last < number), "out of order");
                self.served.push(number);
            }
            EventKind::Left | EventKind::Expired => self.out.push(number),
            _ => {}
        }
    }
}

fn play(steps: &[Step]) {
    let ids: Vec<TicketId> = (0..WHO).map(|_| TicketId::fresh()).collect();
    let (mut line, mut model, mut told) = (Line::above(0), Model::default(), Heard::default());
    let mut now = 1;
    let mut ttls = vec![1000; WHO];
    for step in steps {
        let mut tell = |happened: LineEvent<'_>| told.hear(happened.kind, happened.slot.number);
        match *step {
            Step::Join { who, take, ttl_us, wait, floor } => {
                ttls[who] = ttl_us;
                let ticket = ticket(ids[who], take, ttl_us, floor);
                let patience = if wait { WaitMode::Wait } else { WaitMode::NoWait };
                let place =
                    line.join(&ticket, (), patience, Expiry::ByTtl, now, &mut tell).unwrap();
                let expected = model.join(&ticket, patience, now);
                assert_eq!(place.map(|place| place.number), expected);
            }
            Step::Renew { who, take } => {
                let ticket = ticket(ids[who], take, ttls[who], 0);
                let place = line.renew(&ticket, now, &mut tell);
                assert_eq!(place.map(|place| place.number), model.renew(&ticket, now));
            }
            Step::Leave { who, soon } => {
                let how = if soon { LeaveMode::Graceful } else { LeaveMode::Now };
                let left = line.leave(ids[who], how, now, &mut tell);
                assert_eq!(left, model.leave(ids[who], how, now));
            }
            Step::Pass { us } => {
                now += us;
                line.expire(now, &mut tell);
                model.expire(now);
            }
        }
        compare(&line, &model, now);
    }
}

fn compare(line: &Line, model: &Model, now: u64) {
    let list = line.list(now);
    assert_eq!((list.len(), line.len()), (model.line.len(), model.line.len()));
    assert_eq!(line.served(), (0..list.len()).filter(|at| model.holds(*at)).count());
    assert_eq!(line.before(line.last() + 1), list.len());
    for (at, ((ticket, place), plain)) in list.iter().zip(&model.line).enumerate() {
        assert_eq!(ticket, &plain.ticket);
        assert_eq!(place.number, plain.number);
        assert_eq!(place.ahead, model.ahead(at));
        assert_eq!(place.state == TicketState::Holding, model.holds(at));
        assert_eq!(place.leaving, plain.told);
        let left = |plain: &Plain| Duration::from_micros(plain.ends - now);
        assert_eq!(place.life, Some(left(plain)));
        let looks = (0..list.len()).filter(|at| model.holds(*at)).map(|at| left(&model.line[at]));
        assert_eq!(place.look, looks.min().filter(|_| !model.holds(at)));
        assert_eq!(line.find_place(ticket.id, now), Some(*place));
        assert_eq!(line.before(place.number), at);
        assert_eq!(line.at(at).map(|seat| seat.ticket.id), Some(ticket.id));
    }
    let mut restored = Line::default();
    for seat in line.slots() {
        assert!(restored.restore(seat.clone(), &mut |_| {}), "it was in the line: {seat:?}");
        assert!(!restored.restore(seat.clone(), &mut |_| {}), "it is there already");
    }
    assert_eq!(restored.list(now), list);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_line_is_what_a_plain_list_would_be(steps in prop::collection::vec(step(), 1..120)) {
        play(&steps);
    }
}

#[test]
fn a_line_has_a_limit() {
    let mut line = Line::above(0);
    let join = |line: &mut Line| {
        let ticket = ticket(TicketId::fresh(), OF, 1000, 0);
        line.join(&ticket, (), WaitMode::Wait, Expiry::ByOwner, 1, &mut |_| {})
    };
    for _ in 0..tenure_core::LINE_TICKETS_MAX {
        join(&mut line).unwrap();
    }
    let error = join(&mut line).unwrap_err();
    assert_eq!(error.kind(), tenure_core::ErrorKind::Rejected);
    assert_eq!(error.to_string(), "the line of \"k\" is full: it has 16384 tickets");
    let ticket = ticket(TicketId::fresh(), OF, 1000, 0);
    let seat = Slot { ticket, session: (), number: line.last() + 1, ends: None, leaving: false };
    assert!(!line.restore(seat, &mut |_| {}));
}

#[test]
fn what_cannot_have_been_in_a_line_is_not_restored() {
    let seat = |id, take, number, leaving| Slot {
        ticket: ticket(id, take, 1000, 0),
        session: 7,
        number,
        ends: None,
        leaving,
    };
    let (first, second) = (TicketId::fresh(), TicketId::fresh());
    let mut line = Line::above(10);
    let mut whats = Vec::new();
    assert!(!line.restore(seat(first, OF, 10, false), &mut |_| {}), "its number was given before");
    assert!(!line.restore(seat(first, OF, NUMBER_MAX + 1, false), &mut |_| {}));
    assert!(line.restore(seat(first, OF, 11, true), &mut |told| whats.push(told.kind)));
    assert_eq!(whats, [EventKind::Joined, EventKind::Served, EventKind::Broken]);
    assert!(
        !line.restore(seat(second, 1, 12, true), &mut |_| {}),
        "who waits is not told, but out"
    );
    assert!(!line.restore(seat(first, OF, 12, false), &mut |_| {}), "it is there already");
    let other = Ticket { share: Share::new(1, OF + 1).unwrap(), ..ticket(second, 1, 1000, 0) };
    let other = Slot { ticket: other, ..seat(second, 1, 12, false) };
    assert!(!line.restore(other, &mut |_| {}), "it is of another capacity");
    assert!(line.restore(seat(second, 1, 12, false), &mut |_| {}));
    line.remove_where(|seat| seat.session == 7, &mut |told| whats.push(told.kind));
    assert_eq!((line.len(), line.last(), &whats[3..]), (0, 12, &[EventKind::Expired; 2][..]));
}

#[test]
fn a_number_beyond_the_last_is_refused() {
    let mut line = Line::above(NUMBER_MAX - 1);
    let mut join = || {
        let ticket = ticket(TicketId::fresh(), 1, 1000, 0);
        line.join(&ticket, (), WaitMode::Wait, Expiry::ByTtl, 1, &mut |_| {})
    };
    assert_eq!(join().unwrap().map(|place| place.number), Some(NUMBER_MAX));
    let error = join().unwrap_err();
    assert_eq!(error.kind(), tenure_core::ErrorKind::Rejected);
    assert_eq!(line.len(), 1);
}

#[test]
fn who_waits_looks_again_only_where_lives_end() {
    for (lives, looks) in [(Expiry::ByTtl, true), (Expiry::ByOwner, false)] {
        let mut line = Line::above(0);
        let mut join = || {
            let ticket = Ticket { ttl: Duration::MAX, ..ticket(TicketId::fresh(), OF, 1, 0) };
            line.join(&ticket, (), WaitMode::Wait, lives, 1, &mut |_| {}).unwrap().unwrap()
        };
        assert_eq!(join().look, None, "it is served");
        assert_eq!(join().look.is_some(), looks);
    }
}

#[test]
fn a_smaller_share_lets_in_who_waits_behind() {
    let mut line = Line::above(0);
    let (writer, reader) = (TicketId::fresh(), TicketId::fresh());
    let quiet = &mut |_: LineEvent<'_>| {};
    line.join(&ticket(writer, OF, 1000, 0), (), WaitMode::Wait, Expiry::ByTtl, 1, quiet).unwrap();
    let place = line.join(&ticket(reader, 1, 1000, 0), (), WaitMode::Wait, Expiry::ByTtl, 1, quiet);
    assert_eq!(place.unwrap().unwrap().state, TicketState::Waiting);
    line.renew(&ticket(writer, 1, 1000, 0), 1, quiet).unwrap();
    assert_eq!(line.find_place(reader, 1).unwrap().state, TicketState::Holding);
    line.renew(&ticket(writer, OF, 1000, 0), 1, quiet).unwrap();
    assert_eq!(line.list(1)[0].0.share.take(), 1, "a share never grows");
}
