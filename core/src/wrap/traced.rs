//! An engine that tells what it does: a span for each verb, and figures for waits, holds and losses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::Instrument as _;

use super::{Around, Question};
use crate::{
    Clock, Engine, Leave, Left, Patience, Place, Result, Standing, Ticket, TicketId, Time, Wake,
};

/// Tells of every verb through `tracing`: a span at the level `DEBUG`, an event at `WARN` for a
/// loss. With the feature `metrics` it also counts:
///
/// | name | kind | what |
/// |---|---|---|
/// | `tenure_wait_seconds` | histogram | from joining to being served |
/// | `tenure_hold_seconds` | histogram | from being served to leaving |
/// | `tenure_renewals_total{outcome}` | counter | `kept`, `lost`, `failed` |
/// | `tenure_losses_total` | counter | tickets that were served and are gone |
/// | `tenure_handovers_total` | counter | tickets that were served after waiting |
///
/// ```
/// use std::sync::Arc;
///
/// use tenure_core::{Locks, Memory, SystemClock, wrap::Traced};
///
/// # tenure_core::blocking::block_on(async {
/// let locks = Locks::new(Traced::new(Memory::new(), Arc::new(SystemClock)));
/// let guard = locks.mutex("invoices/42").lock().await?;
/// guard.release().await?;
/// # Ok::<(), tenure_core::Error>(()) }).unwrap();
/// ```
pub struct Traced<E> {
    engine: E,
    clock: Arc<dyn Clock>,
    tickets: Mutex<HashMap<TicketId, Since>>,
}

/// Since when a ticket has been where it is.
#[derive(Clone, Copy)]
enum Since {
    Joined(Time),
    Served(Time),
}

impl<E: Engine> Traced<E> {
    /// Tells of what this engine does.
    pub fn new(engine: E, clock: Arc<dyn Clock>) -> Self {
        Self { engine, clock, tickets: Mutex::default() }
    }

    fn joined(&self, ticket: &Ticket, sent: Time, place: &Place) {
        let waited = place.standing == Standing::Waiting;
        let since = if waited {
            Since::Joined(sent)
        } else {
            let now = self.clock.now();
            figures::waited(sent.until(now));
            Since::Served(now)
        };
        self.tickets().insert(ticket.id, since);
    }

    fn served(&self, ticket: &Ticket) {
        let now = self.clock.now();
        let mut tickets = self.tickets();
        if let Some(since) = tickets.get_mut(&ticket.id)
            && let Since::Joined(joined) = *since
        {
            *since = Since::Served(now);
            drop(tickets);
            figures::waited(joined.until(now));
            figures::handed_over();
        }
    }

    fn gone(&self, ticket: &Ticket, lost: bool) {
        let since = self.tickets().remove(&ticket.id);
        if let Some(Since::Served(served)) = since {
            figures::held(served.until(self.clock.now()));
            if lost {
                tracing::warn!(key = %ticket.key, id = %ticket.id, "a lock is lost");
                figures::lost();
            }
        }
    }

    fn tickets(&self) -> MutexGuard<'_, HashMap<TicketId, Since>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Engine> Around for Traced<E> {
    type Inner = E;

    fn inner(&self) -> &E {
        &self.engine
    }

    fn pass<T: Send>(
        &self,
        question: Question<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> impl Future<Output = Result<T>> + Send {
        ask.instrument(question.span())
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        let sent = self.clock.now();
        let joined = self.pass(Question::Join(ticket), self.engine.join(ticket, patience)).await;
        if let Ok(Some(place)) = &joined {
            self.joined(ticket, sent, place);
        }
        joined
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let renewed = self.pass(Question::Renew(ticket), self.engine.renew(ticket)).await;
        match &renewed {
            Ok(Some(place)) => {
                figures::renewed("kept");
                if place.standing == Standing::Holding {
                    self.served(ticket);
                }
            }
            Ok(None) => {
                figures::renewed("lost");
                self.gone(ticket, true);
            }
            Err(_) => figures::renewed("failed"),
        }
        renewed
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        let left = self.pass(Question::Leave(ticket, how), self.engine.leave(ticket, how)).await;
        match &left {
            Ok(Left::Told) | Err(_) => {}
            Ok(Left::Absent) => self.gone(ticket, true),
            Ok(Left::Holding | Left::Waiting | Left::Unsure) => self.gone(ticket, false),
        }
        left
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        let wake = self.pass(Question::Watch(ticket), self.engine.watch(ticket, seen)).await;
        if let Ok(Wake::Served(_)) = &wake {
            self.served(ticket);
        }
        wake
    }
}

#[cfg(feature = "metrics")]
mod figures {
    use super::Duration;

    pub(super) fn waited(time: Duration) {
        metrics::histogram!("tenure_wait_seconds").record(time.as_secs_f64());
    }

    pub(super) fn held(time: Duration) {
        metrics::histogram!("tenure_hold_seconds").record(time.as_secs_f64());
    }

    pub(super) fn renewed(outcome: &'static str) {
        metrics::counter!("tenure_renewals_total", "outcome" => outcome).increment(1);
    }

    pub(super) fn lost() {
        metrics::counter!("tenure_losses_total").increment(1);
    }

    pub(super) fn handed_over() {
        metrics::counter!("tenure_handovers_total").increment(1);
    }
}

#[cfg(not(feature = "metrics"))]
mod figures {
    use super::Duration;

    pub(super) fn waited(_: Duration) {}
    pub(super) fn held(_: Duration) {}
    pub(super) fn renewed(_: &'static str) {}
    pub(super) fn lost() {}
    pub(super) fn handed_over() {}
}
