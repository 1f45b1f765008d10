//! A layer that repeats operations whose answers were lost. Promise 4, twice is once, makes that
//! safe.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};

use super::AnyEngine;
use crate::background::releaser::{JoinState, Releaser};
use crate::event::{Cursor, EventBatch, Scope};
use crate::lease::span::shown;
use crate::{
    CounterValue, Engine, Error, ExpiringMap, Guarantees, Key, LeaveMode, LeaveOutcome, Place,
    Result, Runtime, Ticket, TicketState, Time, WaitMode, Wake, Window,
};

/// This part of the time is left to report that it is over.
const TELLING: u32 = 16;

/// Repeats an operation whose outcome is unknown, a few times, with growing pauses. All attempts
/// together take at most twice the time of one.
///
/// A windowed count is never repeated: it would count twice.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use tenure::{Locks, engine::{Memory, BackgroundRuntime, Retry}};
///
/// # tenure::blocking::block_on(async {
/// let host = Arc::new(BackgroundRuntime::for_timers());
/// let engine = Retry::new(Memory::new(), host.clone(), 3, Duration::from_millis(50));
/// let locks = Locks::on(engine, host);
/// let guard = locks.mutex("invoices/42").lock().await?;
/// guard.release().await?;
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub struct Retry<E> {
    engine: Arc<E>,
    host: Arc<dyn Runtime>,
    /// Removes tickets that an unanswered attempt may still insert.
    sweeper: Arc<Releaser>,
    /// The tickets that are in a line and had an unanswered attempt to join.
    doubtful: Mutex<ExpiringMap<()>>,
    times: u32,
    pause: Duration,
    /// Maximum time of all attempts together.
    within: Duration,
}

impl<E: Engine> Retry<E> {
    /// Up to `times` more attempts, the first after `pause`, each next one after twice that time.
    pub fn new(engine: E, host: Arc<dyn Runtime>, times: u32, pause: Duration) -> Self {
        let within = engine.guarantees().answers_within.saturating_mul(2);
        let engine = Arc::new(engine);
        let sweeper = Releaser::new(AnyEngine::sharing(engine.clone()), host.clone());
        Self { engine, host, sweeper, doubtful: Mutex::default(), times, pause, within }
    }

    /// The inner engine.
    pub fn inner(&self) -> &E {
        &self.engine
    }

    /// The first attempt has the engine's own time limit. Further attempts share the rest of the
    /// time.
    async fn again<T, F: Future<Output = Result<T>>>(
        &self,
        mut attempt: impl FnMut(u32) -> F,
    ) -> Result<T> {
        let over = self.host.now().plus(self.within.saturating_sub(self.within / TELLING));
        let mut outcome = attempt(0).await;
        let mut pause = self.pause;
        for before in 1..=self.times {
            let Err(error) = &outcome else { break };
            if !error.is_retryable() || self.host.now().plus(pause).has_reached(over) {
                break;
            }
            tracing::trace!(%error, "sending the request again");
            self.host.ready()?;
            self.host.sleep(pause).await;
            pause = pause.saturating_mul(2);
            let late = self.host.sleep(self.host.now().until(over));
            // Boxed, because retries are rare and would enlarge the future of every operation.
            outcome = match select(Box::pin(attempt(before)), late).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(_) => break,
            };
        }
        outcome
    }

    /// An earlier unanswered attempt may insert this ticket after it has left. Remembers the
    /// ticket, so that it is removed then.
    fn doubt(&self, ticket: &Ticket) {
        let now = self.host.now();
        // An earlier attempt cannot arrive later than this.
        let until = now.plus(self.within.max(ticket.ttl));
        self.doubtful().note(ticket.id, (), now, until);
    }

    fn doubtful(&self) -> MutexGuard<'_, ExpiringMap<()>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats an operation that changes a line. If an attempt was not answered, the outcome is
    /// unknown even if a later one is refused.
    async fn change<T, F: Future<Output = Result<T>>>(
        &self,
        mut attempt: impl FnMut(u32) -> F,
    ) -> Result<T> {
        let mut unanswered = 0;
        let asked = |before| {
            unanswered = before;
            attempt(before)
        };
        match self.again(asked).await {
            Err(error) if unanswered > 0 && !error.is_retryable() => Err(Error::unavailable(
                format!("{error}; an earlier attempt was not answered, and may have succeeded"),
            )
            .caused_by(error)),
            outcome => outcome,
        }
    }
}

impl<E: Engine> Engine for Retry<E> {
    fn guarantees(&self) -> Guarantees {
        let mut profile = self.engine.guarantees();
        profile.answers_within = self.within;
        profile
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        self.change(|before| async move {
            let joined = self.engine.join(ticket, patience).await;
            match &joined {
                // The caller does not wait, and an earlier attempt may still insert the ticket.
                Ok(None) if before > 0 => {
                    self.sweeper.give_back(ticket.clone(), JoinState::Joining, None, None);
                }
                Ok(Some(_)) if before > 0 => self.doubt(ticket),
                _ => {}
            }
            joined
        })
        .await
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.again(|_| self.engine.renew(ticket)).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let attempt = |before| async move {
            match self.engine.leave(ticket, how).await {
                Ok(LeaveOutcome::Absent) if before > 0 => Ok(LeaveOutcome::Unsure),
                answer => answer,
            }
        };
        let left = self.change(attempt).await;
        let is_out = matches!(
            left,
            Ok(LeaveOutcome::Holding
                | LeaveOutcome::Waiting
                | LeaveOutcome::Absent
                | LeaveOutcome::Unsure)
        );
        if is_out && self.doubtful().forget(ticket.id).is_some() {
            // A later attempt inserted it, and an earlier one may still do so again.
            self.sweeper.give_back(ticket.clone(), JoinState::Joining, None, None);
        }
        left
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.engine.watch(ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        let (mut over, mut pause) = (Time::NEVER, self.pause);
        loop {
            let asked = self.host.now();
            let error = match self.engine.events(scope, after).await {
                Err(error) if error.is_retryable() => error,
                news => return news,
            };
            // Without a time limit, because it waits for events. A call that ran for longer than
            // the limit counts as a success.
            let failed = self.host.now();
            if over == Time::NEVER || asked.until(failed) > self.within {
                (over, pause) = (failed.plus(self.within), self.pause);
            }
            self.host.ready()?;
            if failed.plus(pause).has_reached(over) {
                return Err(error);
            }
            self.host.sleep(pause).await;
            pause = pause.saturating_mul(2);
        }
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.again(|_| self.engine.line(key)).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        self.host.ready()?;
        // A listing has many steps, each within its own time limit.
        let listed = self.again(|_| self.engine.keys(prefix));
        match select(pin!(listed), self.host.sleep(self.within)).await {
            Either::Left((keys, _)) => keys,
            Either::Right(_) => Err(Error::unavailable(format!(
                "{} did not list its keys within {}: use a longer timeout, or fewer keys",
                self.guarantees().store,
                shown(self.within)
            ))),
        }
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        match window {
            Some(_) => self.engine.add(key, by, window).await,
            None => self.change(|_| self.engine.add(key, by, None)).await,
        }
    }

    async fn close(&self) {
        self.sweeper.flush().await;
        self.engine.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::background::fake_runtime::FakeRuntime;
    use crate::line::expiring_map::MOST;
    use crate::{Memory, Share};

    #[test]
    fn so_many_tickets_are_in_doubt_and_none_longer_than_it_can_come() {
        let host = Arc::new(FakeRuntime::default());
        let retry = Retry::new(Memory::new(), host.clone(), 1, Duration::from_millis(1));
        let within = retry.within;
        let doubt = |ttl: Duration| {
            retry.doubt(&Ticket { ttl, ..Ticket::new(Key::new("a").unwrap(), Share::WHOLE) });
            retry.doubtful().len()
        };
        for count in 1..MOST {
            assert_eq!(doubt(Duration::ZERO), count);
        }
        assert_eq!(doubt(within * 2), MOST);
        assert_eq!(doubt(within), MOST, "there is no room, and each of them may still come");
        drop(host.sleep(within));
        assert_eq!(doubt(within), 2, "one lives on, and there is room again");
    }
}
