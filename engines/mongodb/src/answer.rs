//! The outcome of a step for each ticket, read from the answer to the command.

use std::slice;
use std::time::Duration;

use mongodb::bson::{Bson, Document};
use tenure_core::{
    CounterValue, Error, Key, LeaveOutcome, NUMBER_MAX, Note, Owner, Place, Reason, Result, Share,
    Ticket, TicketId, TicketState, errors, served,
};

use crate::field_prefix::Refusal;
use crate::line::outcome;
use crate::request::{Reads, TicketRequest, Verb};

/// The outcome of a verb for its ticket.
#[derive(Clone, Debug)]
pub(crate) enum VerbOutcome {
    /// It stands in the line.
    In(Place),
    /// It holds, and has read the document in the same step.
    Read(Place, Document),
    /// It does not stand in the line.
    Nowhere,
    /// It stood in the line before it joined.
    Known,
    /// It would have to wait.
    Busy,
    /// The record is fresh, and the join has to name it.
    Fresh,
    Left(LeaveOutcome),
    Refused(Error),
}

impl VerbOutcome {
    /// Adds the document that the ticket has read, if it asked for it and holds.
    pub(crate) fn reading(self, request: &TicketRequest, document: Option<&Document>) -> Self {
        match (self, document) {
            (Self::In(place), Some(document))
                if place.state == TicketState::Holding && request.reads != Reads::Nothing =>
            {
                Self::Read(place, document.clone())
            }
            (outcome, _) => outcome,
        }
    }

    /// The outcome of a verb in a line that never existed.
    pub(crate) fn of_nobody(verb: Verb) -> Self {
        match verb {
            Verb::Leave { .. } => Self::Left(LeaveOutcome::Absent),
            _ => Self::Nowhere,
        }
    }
}

/// Reads the outcome of each request from an answer, in their order.
pub(crate) struct AnswerReader<'a> {
    answer: &'a Document,
    places: slice::Iter<'a, Bson>,
    /// Leaves come first in the array `did`.
    leaves: slice::Iter<'a, Bson>,
    joins: slice::Iter<'a, Bson>,
    refusals: &'a [Refusal],
}

impl<'a> AnswerReader<'a> {
    pub(crate) fn new(
        answer: &'a Document,
        requests: &[&TicketRequest],
        refusals: &'a [Refusal],
    ) -> Option<Self> {
        let leaves = requests.iter().filter(|request| request.is_leave()).count();
        let array = |field| answer.get_array(field).map_or(&[][..], Vec::as_slice);
        let (leaves, joins) = array("did").split_at_checked(leaves)?;
        let (leaves, joins) = (leaves.iter(), joins.iter());
        Some(Self { answer, places: array("places").iter(), leaves, joins, refusals })
    }

    /// Returns the outcome of the next request, or `None` if no step of Tenure's gives such an
    /// answer.
    pub(crate) fn next(&mut self, request: &TicketRequest) -> Option<VerbOutcome> {
        match request.verb {
            Verb::Leave { .. } => left(as_whole(self.leaves.next()?)?).map(VerbOutcome::Left),
            Verb::Renew | Verb::Look => self.seen(),
            Verb::Join { .. } => self.joined(&request.ticket),
        }
    }

    fn seen(&mut self) -> Option<VerbOutcome> {
        let place = self.places.next()?.as_document()?;
        if place.is_empty() {
            return Some(VerbOutcome::Nowhere);
        }
        self.place(place).map(VerbOutcome::In)
    }

    fn joined(&mut self, ticket: &Ticket) -> Option<VerbOutcome> {
        let (place, key) = (self.places.next()?.as_document()?, &ticket.key);
        Some(match as_whole(self.joins.next()?)? {
            outcome::SERVED | outcome::QUEUED => VerbOutcome::In(self.place(place)?),
            outcome::KNOWN => VerbOutcome::Known,
            outcome::BUSY => VerbOutcome::Busy,
            outcome::FRESH => VerbOutcome::Fresh,
            outcome::MIXED => VerbOutcome::Refused(errors::other_capacity(
                key,
                number(self.answer, "of")?,
                ticket.share,
            )),
            outcome::OF_ANOTHER => VerbOutcome::Refused(errors::id_of_another(
                key,
                ticket.id,
                place.get_str("owner").ok()?,
            )),
            outcome::FULL => VerbOutcome::Refused(errors::line_is_full(key)),
            outcome::TOO_LONG => VerbOutcome::Refused(Error::rejected(format!(
                "the line of {key:?} is full: its document is near the 16 MiB that MongoDB allows, and takes no more tickets"
            ))
            .with_reason(Reason::DocumentRefused)),
            outcome::NO_NUMBERS_LEFT => {
                let after = number(self.answer, "last").unwrap_or(0) + 1;
                let clock = number(self.answer, "at")?.saturating_mul(1000);
                VerbOutcome::Refused(errors::no_numbers_left(key, after.max(clock).max(ticket.floor)))
            }
            did => {
                let nth = usize::try_from(did - outcome::REFUSED).ok()?;
                VerbOutcome::Refused((self.refusals.get(nth)?.error)(key))
            }
        })
    }

    fn place(&self, seat: &Document) -> Option<Place> {
        let now = number(self.answer, "at")?;
        let look = seat.get("look").map(|_| whole(seat, "look"));
        Some(Place {
            number: number(seat, "n")?,
            state: if look.is_some() { TicketState::Waiting } else { TicketState::Holding },
            ahead: number(seat, "ahead")?,
            life: Some(millis(number(seat, "ends")?, now)),
            look: look
                .flatten()
                .and_then(|ends| u64::try_from(ends).ok())
                .map(|ends| millis(ends, now)),
            leaving: seat.get_bool("told").ok()?,
        })
    }
}

fn left(did: i64) -> Option<LeaveOutcome> {
    Some(match did {
        outcome::ABSENT => LeaveOutcome::Absent,
        outcome::WAITING => LeaveOutcome::Waiting,
        outcome::HOLDING => LeaveOutcome::Holding,
        outcome::TOLD => LeaveOutcome::Requested,
        _ => return None,
    })
}

/// Returns the tickets of a line, from the front.
pub(crate) fn line(answer: &Document, key: &Key) -> Option<Vec<(Ticket, Place)>> {
    let now = number(answer, "at")?;
    let of = u32::try_from(number(answer, "of")?).ok()?;
    let held = answer.get_array("held").ok()?;
    let seats = held.iter().chain(answer.get_array("waiting").ok()?);
    let mut line = Vec::with_capacity(held.len());
    let (mut ahead, mut first_end) = (0, u64::MAX);
    for seat in seats {
        let seat = seat.as_document()?;
        let share = Share::new(u32::try_from(number(seat, "take")?).ok()?, of).ok()?;
        let (ends, holding) = (number(seat, "ends")?, served(ahead, share));
        if holding {
            first_end = first_end.min(ends);
        }
        let place = Place {
            number: number(seat, "n")?,
            state: if holding { TicketState::Holding } else { TicketState::Waiting },
            ahead,
            life: Some(millis(ends, now)),
            look: (!holding).then(|| millis(first_end, now)),
            leaving: seat.get_bool("told").ok()?,
        };
        ahead += u64::from(share.take());
        let ticket = Ticket {
            id: seat.get_str("id").ok()?.parse::<TicketId>().ok()?,
            key: key.clone(),
            share,
            ttl: Duration::from_micros(number(seat, "ttl_us")?),
            owner: Owner::shortened(seat.get_str("owner").ok()?),
            note: Note::shortened(seat.get_str("note").ok()?),
            floor: 0,
        };
        line.push((ticket, place));
    }
    Some(line)
}

/// Returns the outcome of a count.
pub(crate) fn counted(answer: &Document, key: &Key, by: u64) -> Option<Result<CounterValue>> {
    let value = number(answer, "value")?;
    if !answer.get_bool("fits").ok()? {
        return Some(Err(errors::count_is_full(key, value, by)));
    }
    let resets_in = match answer.get("ends") {
        Some(_) => Some(millis(number(answer, "ends")?, number(answer, "at")?)),
        None => None,
    };
    Some(Ok(CounterValue::new(value, answer.get_bool("allowed").ok()?, resets_in)))
}

/// Returns the time from `now` to `until`, or zero if that is over.
fn millis(until: u64, now: u64) -> Duration {
    Duration::from_millis(until.saturating_sub(now))
}

/// A number that is not negative.
fn number(document: &Document, field: &str) -> Option<u64> {
    u64::try_from(whole(document, field)?).ok().filter(|number| *number <= NUMBER_MAX)
}

/// A whole number of a document.
pub fn whole(document: &Document, field: &str) -> Option<i64> {
    as_whole(document.get(field)?)
}

/// A whole number, in whichever form the server gives it.
fn as_whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some((*number).into()),
        Bson::Int64(number) => Some(*number),
        #[allow(
            clippy::cast_possible_truncation,
            reason = "a number that is not whole is none of Tenure's"
        )]
        Bson::Double(number) if number.fract() == 0.0 => Some(*number as i64),
        _ => None,
    }
}
