//! Metrics, spans and log lines of every lock: attempts, waits, holds, losses and renewals.
//!
//! A loss is counted and logged where the lease becomes lost, so that no path to a loss can miss
//! it.

use std::time::Duration;

use tracing::field::{Empty, display};
use tracing::{Span, debug_span};

use crate::lease::figures::{self, Meter, Wakeup};
use crate::lease::state::{LeaseState, State};
use crate::wake::contain_panic;
use crate::{Key, Loss, Place, Result, Ticket, TicketId};

/// Outcome of one renewal, as the counter `tenure_renewals_total` labels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The store confirmed the ticket.
    Kept,
    /// The store answered that the ticket is gone.
    Lost,
    /// The store refused the renewal, or did not answer in time.
    Failed,
}

impl Renewal {
    pub(crate) fn of(answer: &Result<Option<Place>>) -> Self {
        match answer {
            Ok(Some(_)) => Self::Kept,
            Ok(None) => Self::Lost,
            Err(error) if error.loss().is_some() => Self::Lost,
            Err(_) => Self::Failed,
        }
    }

    /// Counts it.
    pub(crate) fn count(self) {
        figures::renewed(match self {
            Self::Kept => "kept",
            Self::Lost => "lost",
            Self::Failed => "failed",
        });
    }
}

/// A change of a lease's state that metrics or logs report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Served { waited: Duration, handed_over: Option<Wakeup> },
    Released { held_for: Duration },
    Lost { token: u64, loss: Loss, held_for: Duration },
}

impl Change {
    /// The change that led from the earlier state to the present one, if it is to be reported.
    pub(crate) fn since(before: State, lease: &LeaseState, wakeup: Wakeup) -> Option<Self> {
        match (before, lease.state()) {
            (State::Asked | State::Waiting, State::Holding(_)) => Some(Self::Served {
                waited: lease.waited(),
                handed_over: (before == State::Waiting).then_some(wakeup),
            }),
            (State::Holding(_), State::Released) => {
                Some(Self::Released { held_for: lease.held_for() })
            }
            (State::Holding(token), State::Lost(loss)) => {
                Some(Self::Lost { token, loss, held_for: lease.held_for() })
            }
            _ => None,
        }
    }

    /// Counts it, and logs a loss at `WARN`.
    pub(crate) fn report(self, meter: Meter, key: &Key, id: TicketId) {
        match self {
            Self::Served { waited, handed_over } => {
                meter.served(waited);
                if let Some(wakeup) = handed_over {
                    meter.handed_over(wakeup);
                }
            }
            Self::Released { held_for } => meter.held(held_for),
            Self::Lost { token, loss, held_for } => {
                meter.held(held_for);
                lost(meter, key, id, token, loss, held_for);
            }
        }
    }
}

/// A guard lost its lock: counts the loss by its cause, and logs it.
pub(crate) fn lost(
    meter: Meter,
    key: &Key,
    id: TicketId,
    token: u64,
    loss: Loss,
    held_for: Duration,
) {
    meter.lost(loss);
    contain_panic(
        || tracing::warn!(%key, %id, token, reason = %loss, ?held_for, "a lock was lost"),
    );
}

/// An attempt to take a lock, with its span `lock`. It counts as cancelled if it is dropped.
#[derive(Debug)]
pub(crate) struct LockAttempt {
    meter: Meter,
    kind: &'static str,
    pub(crate) span: Span,
    outcome: &'static str,
}

impl LockAttempt {
    pub(crate) fn begin(meter: Meter, ticket: &Ticket) -> Self {
        meter.campaigns();
        let kind = ticket.share.kind();
        let span = debug_span!(
            "lock",
            tenure.key = %ticket.key,
            tenure.kind = kind,
            tenure.ticket = %ticket.id,
            tenure.token = Empty,
            tenure.outcome = Empty,
        );
        Self { meter, kind, span, outcome: "cancelled" }
    }

    /// The attempt has this outcome.
    pub(crate) fn end(mut self, outcome: &'static str) {
        self.outcome = outcome;
    }

    /// The attempt has taken the lock with this ticket. Returns the span of the hold.
    pub(crate) fn holds(self, key: &Key, id: TicketId, number: u64) -> HoldSpan {
        self.span.record("tenure.ticket", display(id)).record("tenure.token", number);
        let kind = self.kind;
        self.end("held");
        HoldSpan(debug_span!(
            "hold",
            tenure.key = %key,
            tenure.kind = kind,
            tenure.ticket = %id,
            tenure.token = number,
            tenure.outcome = Empty,
        ))
    }
}

impl Drop for LockAttempt {
    fn drop(&mut self) {
        self.meter.attempted(self.kind, self.outcome);
        self.span.record("tenure.outcome", self.outcome);
    }
}

/// The span `hold`, from the return of the guard to its end.
#[derive(Debug)]
pub(crate) struct HoldSpan(Span);

impl HoldSpan {
    /// The hold was released, or lost for this reason.
    pub(crate) fn end(self, loss: Option<Loss>) {
        self.0.record("tenure.outcome", loss.map_or("released", Loss::label));
    }
}
