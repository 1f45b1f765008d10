//! The answers of the scripts: the parts that several verbs share, and those of looks and counts.

use std::time::Duration;

use redis::Value;
use tenure_core::{
    CounterValue, Key, Note, Owner, Place, Result, Share, Ticket, TicketId, TicketState, served,
};

use crate::body::{self, exact};

/// Reads the answer to a count.
pub(crate) fn counted(answer: &Value) -> Option<(i64, CounterValue)> {
    let Value::Array(parts) = answer else { return None };
    let (verdict, value, left) = match numbers(parts)?[..] {
        [verdict, value] => (verdict, value, None),
        [verdict, value, left] => (verdict, value, Some(left)),
        _ => return None,
    };
    let resets_in = left.and_then(|left| u64::try_from(left).ok()).map(Duration::from_millis);
    let value = u64::try_from(value).ok()?;
    Some((verdict, CounterValue::new(value, verdict == 1, resets_in)))
}

/// Minimum number: numbers are microseconds of a clock. A smaller one is the answer to another
/// request, at any time of the clock.
const NUMBER_MIN: u64 = 1_000;

/// Returns the place of a ticket that is the whole line; the answer has only its number.
pub(crate) fn alone(number: i64, ttl: Duration) -> Option<Place> {
    Some(Place {
        number: u64::try_from(number).ok().filter(|number| *number >= NUMBER_MIN)?,
        state: TicketState::Holding,
        ahead: 0,
        life: Some(ttl),
        look: None,
        leaving: false,
    })
}

/// Reads the place of a ticket among others.
pub(crate) fn place(parts: &[Value]) -> Option<Place> {
    let [standing, number, ahead, life, look, told] = numbers(parts)?[..] else { return None };
    let micros = |time: i64| u64::try_from(time).ok().map(Duration::from_micros);
    Some(Place {
        number: u64::try_from(number).ok()?,
        state: if standing == 1 { TicketState::Holding } else { TicketState::Waiting },
        ahead: u64::try_from(ahead).ok()?,
        life: Some(micros(life)?),
        look: micros(look),
        leaving: told == 1,
    })
}

/// Reads the parts of an answer that are all numbers.
pub(crate) fn numbers(parts: &[Value]) -> Option<Vec<i64>> {
    parts
        .iter()
        .map(|part| if let Value::Int(number) = part { Some(*number) } else { None })
        .collect()
}

/// Reads the answer to a request about this many tickets: whether something is kept of each.
pub(crate) fn marks(answer: &Value, tickets: usize) -> Option<Vec<bool>> {
    let Value::Array(marks) = answer else { return None };
    let kept = marks.iter().map(|mark| *mark != Value::Nil);
    (marks.len() == tickets).then(|| kept.collect())
}

/// Reads the answer to a look at a whole line. It has no capacity.
pub(crate) fn line(answer: &Value, key: &Key) -> Option<Result<Vec<(Ticket, Place)>>> {
    let Value::Array(parts) = answer else { return None };
    let [Value::Int(now), Value::Int(of), tickets @ ..] = &parts[..] else { return None };
    let (now, of) = (u64::try_from(*now).ok()?, u32::try_from(*of).ok()?);
    let mut line = Vec::with_capacity(tickets.len() / 2);
    let mut ahead = 0;
    let mut first_end = u64::MAX;
    for pair in tickets.chunks_exact(2) {
        let [Value::BulkString(id), Value::BulkString(ticket)] = pair else { return None };
        let entry = StoredTicket::read(ticket)?;
        // The next verb of any client finds that its life has ended, and serves the tickets that
        // fit then.
        if entry.ends <= now {
            continue;
        }
        let body = match body::decode(entry.body) {
            Ok(body) => body,
            Err(error) => return Some(Err(error)),
        };
        let share = Share::new(entry.take, of).ok()?;
        let holding = served(ahead, share);
        if holding {
            first_end = first_end.min(entry.ends);
        }
        let place = Place {
            number: entry.number,
            state: if holding { TicketState::Holding } else { TicketState::Waiting },
            ahead,
            life: Some(Duration::from_micros(entry.ends - now)),
            look: (!holding).then(|| Duration::from_micros(first_end.saturating_sub(now))),
            leaving: entry.told,
        };
        ahead += u64::from(entry.take);
        let id = TicketId::from_u128(u128::from_be_bytes(id.as_slice().try_into().ok()?));
        let ticket = Ticket {
            id,
            key: key.clone(),
            share,
            ttl: body.ttl,
            owner: Owner::shortened(body.owner),
            note: Note::shortened(body.note),
            floor: 0,
        };
        line.push((ticket, place));
    }
    Some(Ok(line))
}

/// A ticket as the scripts keep it.
struct StoredTicket<'a> {
    number: u64,
    ends: u64,
    take: u32,
    told: bool,
    body: &'a [u8],
}

impl<'a> StoredTicket<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (ends, rest) = rest.split_first_chunk()?;
        let (take, rest) = rest.split_first_chunk()?;
        let (told, body) = rest.split_first()?;
        Some(Self {
            number: exact(f64::from_le_bytes(*number))?,
            ends: exact(f64::from_le_bytes(*ends))?,
            take: u32::from_le_bytes(*take),
            told: *told == 1,
            body,
        })
    }
}
