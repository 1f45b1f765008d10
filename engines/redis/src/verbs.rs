//! The three verbs that change a line: the call of each, its part in a batch, and its answer.

use redis::{Cmd, Value};
use tenure_core::{Error, LeaveMode, LeaveOutcome, Place, Result, Ticket, WaitMode, errors};
use tenure_kit::secret::redact;

use crate::batch::BatchItem;
use crate::body::{self, micros};
use crate::reply::{alone, numbers, place};
use crate::script::{KEEP_MS, Scripts, VerbTag};
use crate::settings::Settings;

/// The server counts the lives of keys in whole milliseconds, from one that has begun already.
const ROUNDING_MS: u64 = 1;

/// A join or a renewal of a ticket.
pub(crate) struct TicketCall<'a> {
    name: &'a str,
    ticket: &'a Ticket,
    card: Vec<u8>,
    /// The life of the line's key if this ticket is alone in it.
    life: String,
}

impl<'a> TicketCall<'a> {
    pub(crate) fn new(name: &'a str, ticket: &'a Ticket, inbox: &str) -> Self {
        let life = micros(ticket.ttl).div_ceil(1000) + ROUNDING_MS + KEEP_MS;
        Self { name, ticket, card: body::card(ticket, inbox), life: life.to_string() }
    }

    /// Returns its part in a batch, which only a ticket without a floor has.
    pub(crate) fn item(&self, tag: VerbTag) -> Option<BatchItem<'_>> {
        let Self { name, card, life, .. } = self;
        (self.ticket.floor == 0).then_some(BatchItem { tag, line: name, ticket: card, life })
    }

    pub(crate) fn join(&self, scripts: &Scripts, mode: WaitMode) -> Cmd {
        let mut call = scripts.join.on(self.name);
        call.arg(&self.card).arg(&self.life);
        if mode == WaitMode::NoWait || self.ticket.floor > 0 {
            call.arg(u8::from(mode == WaitMode::Wait)).arg(self.ticket.floor);
        }
        call
    }

    pub(crate) fn renewal(&self, scripts: &Scripts) -> Cmd {
        let mut call = scripts.renew.on(self.name);
        call.arg(&self.card).arg(&self.life);
        if self.ticket.floor > 0 {
            call.arg(self.ticket.floor);
        }
        call
    }

    /// Reads the answer to a join: the place, none if the line is busy, or the refusal. `None`: no
    /// script answers so.
    pub(crate) fn joined(
        &self,
        answer: &Value,
        settings: &Settings,
    ) -> Option<Result<Option<Place>>> {
        let Ticket { id, key, share, ttl, .. } = self.ticket;
        let number = |number: i64| u64::try_from(number).ok();
        let refusal = match answer {
            Value::Nil => return Some(Ok(None)),
            Value::Int(number) => return Some(Ok(Some(alone(*number, *ttl)?))),
            Value::BulkString(owner) => {
                // A server may repeat the command.
                let owner = redact(settings.secrets(), String::from_utf8(owner.clone()).ok()?);
                errors::id_of_another(key, *id, owner.as_deref().unwrap_or("somebody"))
            }
            Value::Array(parts) => match numbers(parts)?[..] {
                [-1, of] => errors::other_capacity(key, number(of)?, *share),
                [-2] => errors::line_is_full(key),
                [-3, last] => errors::no_numbers_left(key, number(last)?),
                [-4, shares] => Error::rejected(format!(
                    "{shares} different sizes wait in the line of {key:?}, which is as many as it takes: ask for one of those, or later"
                )),
                _ => return Some(Ok(Some(place(parts)?))),
            },
            _ => return None,
        };
        Some(Err(refusal))
    }

    /// Reads the answer to a renewal: the place, or none if the ticket is out. `None`: no script
    /// answers so.
    pub(crate) fn renewed(&self, answer: &Value) -> Option<Option<Place>> {
        Some(match answer {
            Value::Nil => None,
            Value::Int(number) => Some(alone(*number, self.ticket.ttl)?),
            Value::Array(parts) => Some(place(parts)?),
            _ => return None,
        })
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

    /// Returns its part in a batch.
    pub(crate) fn item(&self) -> Option<BatchItem<'_>> {
        let Self { name, asks, manner } = self;
        let is_own = matches!(*manner, OWN | OWN_LONG);
        is_own.then_some(BatchItem { tag: VerbTag::Leave, line: name, ticket: asks, life: manner })
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
