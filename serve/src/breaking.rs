//! Compare-and-break: ends the ticket that the visitor saw, and no other.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::StatusCode;
use serde::{Deserialize, Serialize};
use tenure_core::{Key, LeaveOutcome, LineEntry, Locks, Result, TicketId, TicketState};
use tenure_kit::rate_limiter::{AT_ONCE, EACH, RateLimiter};

use crate::access::{Role, Visitor};
use crate::reply::HttpRefusal;

/// The body of a request to break a ticket.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BreakRequest {
    /// The whole id of the ticket.
    pub(crate) ticket: String,
    /// The number of the ticket, as the visitor saw it.
    pub(crate) number: u64,
    /// Removes the ticket without asking its owner.
    #[serde(default)]
    pub(crate) force: bool,
}

/// The result of a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum BreakResult {
    /// The holder was asked to leave.
    #[serde(rename = "requested")]
    Requested,
    /// The holder was asked earlier, and has not left yet.
    #[serde(rename = "leaving")]
    Leaving,
    /// The ticket is out of the line.
    #[serde(rename = "gone")]
    Gone,
    /// The ticket is not in the line, or has another number, and another ticket holds the key.
    /// Nothing was changed.
    #[serde(rename = "another ticket")]
    AnotherTicket,
}

/// The record of a break or of a refused break, for an audit. It has no key: the ticket's id is
/// unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BreakRecord {
    /// The name of the visitor.
    pub who: String,
    /// The address of the client, if the server knows it.
    pub from: Option<String>,
    /// The id of the ticket, `invalid` if the visitor sent no id, or `unread` if the request was
    /// refused before its body was read.
    pub ticket: String,
    /// The number of the ticket, as the visitor saw it.
    pub number: u64,
    /// The ticket was to be removed without asking its owner.
    pub force: bool,
    /// The result, or `None` if the break failed or was refused.
    pub result: Option<BreakResult>,
    /// The HTTP status of the answer.
    pub status: u16,
}

/// Minimum interval between two records of refused breaks.
const REFUSALS_EACH: Duration = Duration::from_secs(1);

/// Limits the rate of breaks and of records of refused breaks, of all visitors together.
#[derive(Debug, Default)]
pub(crate) struct BreakLimit {
    breaks: Mutex<RateLimiter>,
    /// The time of the last record of a refused break.
    refused: Mutex<Option<Instant>>,
}

impl BreakLimit {
    /// Takes one break, if the rate permits it.
    pub(crate) fn take(&self) -> std::result::Result<(), HttpRefusal> {
        let mut limiter = self.breaks.lock().unwrap_or_else(PoisonError::into_inner);
        if limiter.turn(Instant::now(), 0, Duration::ZERO).is_some() {
            return Ok(());
        }
        let each = EACH.as_millis();
        let sentence =
            format!("too many breaks: {AT_ONCE} at once, and one each {each} ms after them");
        Err(HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, sentence))
    }

    /// Returns whether a refused break may be recorded now.
    pub(crate) fn takes_refusal(&self, now: Instant) -> bool {
        let mut last = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| now.duration_since(last) < REFUSALS_EACH) {
            return false;
        }
        *last = Some(now);
        true
    }
}

impl BreakRequest {
    /// The id of the ticket for a record. Other text of a visitor never reaches it.
    fn shown_ticket(&self) -> String {
        self.ticket.parse().map_or_else(|_| "invalid".to_owned(), |id: TicketId| id.to_string())
    }

    /// Checks that the role of the visitor permits the break.
    pub(crate) fn check(&self, visitor: &Visitor) -> std::result::Result<(), HttpRefusal> {
        visitor.check(if self.force { Role::Force } else { Role::Ask })
    }
}

impl BreakRecord {
    /// The record of this request, or of one whose body was not read.
    pub(crate) fn new(
        visitor: &Visitor,
        from: Option<&str>,
        request: Option<&BreakRequest>,
        status: StatusCode,
    ) -> Self {
        Self {
            who: visitor.who().to_owned(),
            from: from.map(str::to_owned),
            ticket: request.map_or_else(|| "unread".to_owned(), BreakRequest::shown_ticket),
            number: request.map_or(0, |request| request.number),
            force: request.is_some_and(|request| request.force),
            result: None,
            status: status.as_u16(),
        }
    }
}

/// Breaks the ticket if it is the one that the visitor saw.
///
/// The line is read before the break. An id is never used again, so the ticket cannot become
/// another one between the two steps.
pub(crate) async fn compare_and_break(
    locks: &Locks,
    key: &Key,
    request: &BreakRequest,
) -> Result<BreakResult> {
    let id: TicketId = request.ticket.parse()?;
    let line = locks.line(key).await?;
    let Some(entry) = line.iter().find(|entry| entry.id == id) else { return Ok(absent(&line)) };
    if entry.number != request.number {
        return Ok(BreakResult::AnotherTicket);
    }
    if entry.leaving && !request.force {
        return Ok(BreakResult::Leaving);
    }
    let outcome = if request.force {
        locks.force_unlock(key, id).await?
    } else {
        locks.break_ticket(key, id).await?
    };
    Ok(match outcome {
        LeaveOutcome::Requested => BreakResult::Requested,
        _ => BreakResult::Gone,
    })
}

fn absent(line: &[LineEntry]) -> BreakResult {
    if line.iter().any(|entry| entry.state == TicketState::Holding) {
        BreakResult::AnotherTicket
    } else {
        BreakResult::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_breaks_is_limited() {
        let limit = BreakLimit::default();
        let taken = (0..100).filter(|_| limit.take().is_ok()).count();
        assert!((1..10).contains(&taken), "{taken}");
    }

    #[test]
    fn refusals_are_recorded_once_a_second() {
        let (limit, now) = (BreakLimit::default(), Instant::now());
        assert!(limit.takes_refusal(now));
        assert!(!limit.takes_refusal(now + REFUSALS_EACH / 2));
        assert!(limit.takes_refusal(now + REFUSALS_EACH));
    }
}
