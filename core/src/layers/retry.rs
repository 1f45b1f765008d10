//! An engine that asks again where the answer was lost: twice is once.

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

/// This part of the time is left for telling that it is over.
const TELLING: u32 = 16;

/// Sends a verb again when its outcome is unknown, a few times, with growing pauses, for at most twice the time
/// that one attempt may take.
///
/// A windowed count is never sent again: it would count twice.
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
    /// Takes out what an attempt that was not answered may still put into a line.
    sweeper: Arc<Releaser>,
    /// The tickets that are in, and of which an earlier attempt to join was not answered.
    doubtful: Mutex<ExpiringMap<()>>,
    times: u32,
    pause: Duration,
    /// The longest that all attempts take together.
    within: Duration,
}

impl<E: Engine> Retry<E> {
    /// Up to `times` more attempts, the first after `pause`, each next after twice as long.
    pub fn new(engine: E, host: Arc<dyn Runtime>, times: u32, pause: Duration) -> Self {
        let within = engine.guarantees().answers_within.saturating_mul(2);
        let engine = Arc::new(engine);
        let sweeper = Releaser::new(AnyEngine::sharing(engine.clone()), host.clone());
        Self { engine, host, sweeper, doubtful: Mutex::default(), times, pause, within }
    }

    /// The engine itself.
    pub fn inner(&self) -> &E {
        &self.engine
    }

    /// The first attempt has a time of its own, which the engine keeps. Those that follow share what is left.
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
            tracing::trace!(%error, "asking again");
            self.host.ready()?;
            self.host.sleep(pause).await;
            pause = pause.saturating_mul(2);
            let late = self.host.sleep(self.host.now().until(over));
            // Boxed, because hardly anybody asks twice, and every verb would carry the room for it along.
            outcome = match select(Box::pin(attempt(before)), late).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(_) => break,
            };
        }
        outcome
    }

    /// What an earlier attempt puts into the line is this ticket, for as long as it is there; once it has left, it
    /// would be nobody's.
    fn doubt(&self, ticket: &Ticket) {
        let now = self.host.now();
        // Who comes late comes soon, if at all.
        let until = now.plus(self.within.max(ticket.ttl));
        self.doubtful().note(ticket.id, (), now, until);
    }

    fn doubtful(&self) -> MutexGuard<'_, ExpiringMap<()>> {
        self.doubtful.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for what changes a line. If an attempt was not answered, a later one that is refused says
    /// nothing about it: the outcome stays unknown.
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
            Err(error) if unanswered > 0 && !error.is_retryable() => {
                Err(Error::unavailable(format!(
                    "{error}; an earlier attempt was not answered, and may have been carried out"
                ))
                .caused_by(error))
            }
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
                // Its owner goes away, and an earlier attempt may come in yet.
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
            // It was in by a later attempt, and an earlier one may come in yet.
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
            // None is cut, because it may wait for news. One that did so long has ended an outage.
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
        // A listing has many steps, each of which may be in time.
        let listed = self.again(|_| self.engine.keys(prefix));
        match select(pin!(listed), self.host.sleep(self.within)).await {
            Either::Left((keys, _)) => keys,
            Either::Right(_) => Err(Error::unavailable(format!(
                "{} did not list its keys within {}: it keeps too much, or give it more time",
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
