//! The three verbs that change a line: the call of each, its part in a bundle, and its answer.

use std::time::Duration;

use redis::{Cmd, Value};
use tenure_core::{LeaveMode, LeaveOutcome, Place, Ticket, WaitMode};

use crate::body::{self, micros};
use crate::bundle::BatchItem;
use crate::reply::{alone, numbers, place};
use crate::script::{KEEP_MS, Scripts, VerbTag};

/// The server counts the lives of keys in whole milliseconds, from one that has begun already.
const ROUNDING_MS: u64 = 1;

/// A join.
pub(crate) struct JoinCall<'a> {
    life: TicketArgs<'a>,
    ttl: Duration,
    patience: WaitMode,
}

/// The outcome of a join.
pub(crate) enum JoinOutcome {
    In(Place),
    Busy,
    /// The line is kept for another capacity.
    Mixed(u64),
    Full,
    /// The number that the ticket would have had.
    NoNumbersLeft(u64),
    /// The ticket's id is that of a ticket of this owner.
    OfAnother(String),
    /// This count of different shares waits already, and this one is another.
    TooManyShares(u64),
}

impl<'a> JoinCall<'a> {
    pub(crate) fn new(name: &'a str, ticket: &Ticket, inbox: &str, patience: WaitMode) -> Self {
        Self { life: TicketArgs::new(name, ticket, inbox), ttl: ticket.ttl, patience }
    }

    pub(crate) fn wish(&self) -> Option<BatchItem<'_>> {
        self.life.wish(VerbTag::Join)
    }

    pub(crate) fn call(&self, scripts: &Scripts) -> Cmd {
        let Self { life, patience, .. } = self;
        let mut call = scripts.join.on(life.name);
        call.arg(&life.card).arg(&life.length);
        if *patience == WaitMode::NoWait || !life.is_plain() {
            call.arg(u8::from(*patience == WaitMode::Wait));
        }
        if !life.is_plain() {
            call.arg(life.floor);
        }
        call
    }

    /// `None`: no script answers so.
    pub(crate) fn read(&self, answer: &Value) -> Option<JoinOutcome> {
        match answer {
            Value::Nil => Some(JoinOutcome::Busy),
            Value::BulkString(owner) => {
                String::from_utf8(owner.clone()).ok().map(JoinOutcome::OfAnother)
            }
            Value::Int(number) => Some(JoinOutcome::In(alone(*number, self.ttl)?)),
            Value::Array(parts) => match numbers(parts)?[..] {
                [-1, of] => Some(JoinOutcome::Mixed(u64::try_from(of).ok()?)),
                [-2] => Some(JoinOutcome::Full),
                [-3, number] => Some(JoinOutcome::NoNumbersLeft(u64::try_from(number).ok()?)),
                [-4, shares] => Some(JoinOutcome::TooManyShares(u64::try_from(shares).ok()?)),
                _ => place(parts).map(JoinOutcome::In),
            },
            _ => None,
        }
    }
}

/// A renewal.
pub(crate) struct RenewCall<'a> {
    life: TicketArgs<'a>,
    ttl: Duration,
}

/// The outcome of a renewal.
pub(crate) enum RenewOutcome {
    In(Place),
    Out,
}

impl<'a> RenewCall<'a> {
    pub(crate) fn new(name: &'a str, ticket: &Ticket, inbox: &str) -> Self {
        Self { life: TicketArgs::new(name, ticket, inbox), ttl: ticket.ttl }
    }

    pub(crate) fn wish(&self) -> Option<BatchItem<'_>> {
        self.life.wish(VerbTag::Renew)
    }

    pub(crate) fn call(&self, scripts: &Scripts) -> Cmd {
        let life = &self.life;
        let mut call = scripts.renew.on(life.name);
        call.arg(&life.card).arg(&life.length);
        if !life.is_plain() {
            call.arg(life.floor);
        }
        call
    }

    /// `None`: no script answers so.
    pub(crate) fn read(&self, answer: &Value) -> Option<RenewOutcome> {
        match answer {
            Value::Nil => Some(RenewOutcome::Out),
            Value::Int(number) => Some(RenewOutcome::In(alone(*number, self.ttl)?)),
            Value::Array(parts) => place(parts).map(RenewOutcome::In),
            _ => None,
        }
    }
}

/// A request that a ticket leaves, or is asked to.
pub(crate) struct LeaveCall {
    name: String,
    asks: Vec<u8>,
    manner: &'static str,
}

/// The ways to leave: the ticket is asked to; it is removed; or its owner, which believes that it
/// lives, removes it. The last has two forms, for a ttl that is shorter or longer than an idle line
/// is kept.
const SOON: &str = "soon";
const NOW: &str = "now";
const OWN: &str = "";
const OWN_LONG: &str = "long";

impl LeaveCall {
    pub(crate) fn new(
        name: String,
        ticket: &Ticket,
        inbox: &str,
        how: LeaveMode,
        lives: bool,
    ) -> Self {
        let manner = match how {
            LeaveMode::Graceful => SOON,
            LeaveMode::Now if !lives => NOW,
            LeaveMode::Now if ticket.ttl.as_millis() > KEEP_MS.into() => OWN_LONG,
            LeaveMode::Now => OWN,
        };
        Self { name, asks: body::asks(ticket, inbox).to_vec(), manner }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn wish(&self) -> Option<BatchItem<'_>> {
        let alone = matches!(self.manner, OWN | OWN_LONG);
        alone.then(|| BatchItem::new(VerbTag::Leave, &self.name, &self.asks, self.manner))
    }

    pub(crate) fn call(&self, scripts: &Scripts) -> Cmd {
        let mut call = scripts.leave.on(&self.name);
        call.arg(&self.asks);
        if self.manner != OWN {
            call.arg(self.manner);
        }
        call
    }

    /// Reads the outcome, and the messages to those of this client's tickets that are served now;
    /// `None` if no script answers so.
    pub(crate) fn read(answer: &Value) -> Option<(LeaveOutcome, Vec<&[u8]>)> {
        let (left, letters) = match answer {
            Value::Array(parts) => parts.split_first()?,
            left => (left, &[][..]),
        };
        let left = match left {
            Value::Int(0) => LeaveOutcome::Absent,
            Value::Int(1) => LeaveOutcome::Waiting,
            Value::Int(2) => LeaveOutcome::Holding,
            Value::Int(3) => LeaveOutcome::Requested,
            _ => return None,
        };
        Some((left, letters.iter().map(letter).collect::<Option<_>>()?))
    }
}

fn letter(part: &Value) -> Option<&[u8]> {
    if let Value::BulkString(letter) = part { Some(letter) } else { None }
}

/// The common part of a join and a renewal.
struct TicketArgs<'a> {
    name: &'a str,
    card: Vec<u8>,
    /// The life of the line's key if this ticket is alone in it.
    length: String,
    floor: u64,
}

impl<'a> TicketArgs<'a> {
    fn new(name: &'a str, ticket: &Ticket, inbox: &str) -> Self {
        let length = micros(ticket.ttl).div_ceil(1000) + ROUNDING_MS + KEEP_MS;
        Self {
            name,
            card: body::card(ticket, inbox),
            length: length.to_string(),
            floor: ticket.floor,
        }
    }

    /// Returns its part in a bundle, which only a plain ticket has.
    fn wish(&self, sign: VerbTag) -> Option<BatchItem<'_>> {
        self.is_plain().then(|| BatchItem::new(sign, self.name, &self.card, &self.length))
    }

    /// Returns whether it has no floor.
    fn is_plain(&self) -> bool {
        self.floor == 0
    }
}
