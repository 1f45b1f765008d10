//! Metrics and log lines of every lock: waits, holds, losses and renewals.
//!
//! A loss is counted and logged where the lease becomes lost, so that no path to a loss can miss
//! it.

use std::time::Duration;

use crate::lease::state::{LeaseState, State};
use crate::{Key, Loss, Place, Result, TicketId};

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
    Served { waited: Duration, handed_over: bool },
    Released { held_for: Duration },
    Lost { token: u64, loss: Loss, held_for: Duration },
}

impl Change {
    /// The change that led from the earlier state to the present one, if it is to be reported.
    pub(crate) fn since(before: State, lease: &LeaseState) -> Option<Self> {
        match (before, lease.state()) {
            (State::Asked | State::Waiting, State::Holding(_)) => {
                Some(Self::Served { waited: lease.waited(), handed_over: before == State::Waiting })
            }
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
    pub(crate) fn report(self, key: &Key, id: TicketId) {
        match self {
            Self::Served { waited, handed_over } => figures::served(waited, handed_over),
            Self::Released { held_for } => figures::held(held_for),
            Self::Lost { token, loss, held_for } => {
                figures::held(held_for);
                lost(key, id, token, loss, held_for);
            }
        }
    }
}

/// A guard lost its lock: counts the loss by its cause, and logs it.
pub(crate) fn lost(key: &Key, id: TicketId, token: u64, loss: Loss, held_for: Duration) {
    figures::lost(loss);
    tracing::warn!(%key, %id, token, reason = %loss, ?held_for, "a lock was lost");
}

/// Describes every metric to the installed recorder, and registers the counters with zero.
pub(crate) fn describe() {
    figures::describe();
}

#[cfg(feature = "metrics")]
mod figures {
    use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};

    use super::Duration;
    use crate::Loss;

    const WAIT: &str = "tenure_wait_seconds";
    const HOLD: &str = "tenure_hold_seconds";
    const RENEWALS: &str = "tenure_renewals_total";
    const LOSSES: &str = "tenure_losses_total";
    const HANDOVERS: &str = "tenure_handovers_total";

    pub(super) fn describe() {
        describe_histogram!(WAIT, Unit::Seconds, "Time from joining a line to holding the lock");
        describe_histogram!(HOLD, Unit::Seconds, "Time from holding a lock to its release or loss");
        describe_counter!(RENEWALS, "Renewals of tickets, by outcome: kept, lost or failed");
        describe_counter!(LOSSES, "Locks that were lost while a guard held them, by cause");
        describe_counter!(HANDOVERS, "Locks that were given to a waiting ticket");
        // A counter that first appears with a loss shows no increase to an alert.
        for loss in Loss::OF_GUARDS {
            counter!(LOSSES, "cause" => loss.label()).increment(0);
        }
        for outcome in ["kept", "lost", "failed"] {
            counter!(RENEWALS, "outcome" => outcome).increment(0);
        }
        counter!(HANDOVERS).increment(0);
    }

    pub(super) fn served(waited: Duration, handed_over: bool) {
        histogram!(WAIT).record(waited.as_secs_f64());
        if handed_over {
            counter!(HANDOVERS).increment(1);
        }
    }

    pub(super) fn held(time: Duration) {
        histogram!(HOLD).record(time.as_secs_f64());
    }

    pub(super) fn renewed(outcome: &'static str) {
        counter!(RENEWALS, "outcome" => outcome).increment(1);
    }

    pub(super) fn lost(loss: Loss) {
        counter!(LOSSES, "cause" => loss.label()).increment(1);
    }
}

#[cfg(not(feature = "metrics"))]
mod figures {
    use super::Duration;
    use crate::Loss;

    pub(super) fn describe() {}
    pub(super) fn served(_: Duration, _: bool) {}
    pub(super) fn held(_: Duration) {}
    pub(super) fn renewed(_: &'static str) {}
    pub(super) fn lost(_: Loss) {}
}
