//! A holder of about a hundred lines, as found elsewhere: sound, unless it has a sin.

#[path = "held.rs"]
mod held;
#[path = "sin.rs"]
mod sin;

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures_util::future::{Either, select};
use tenure_conformance::sim::holder::{Claim, Client, Holder, Locking};
use tenure_core::layers::AnyEngine;
use tenure_core::sync::Mutex;
use tenure_core::{
    Engine as _, Error, Key, LeaveMode, LeaveOutcome, Note, Owner, Place, Result, Runtime, Share,
    Ticket, TicketId, TicketState, Time, WaitMode,
};

pub(crate) use sin::Sin;

use self::held::Held;

/// The naive holder. Without a sin it keeps every promise.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Naive(pub(crate) Option<Sin>);

impl Holder for Naive {
    fn name(&self) -> String {
        self.0.map_or_else(|| "sound".to_owned(), |sin| format!("{sin:?}"))
    }

    fn connect(&self, engine: AnyEngine, host: Arc<dyn Runtime>) -> Arc<dyn Client> {
        Arc::new(Connection(Arc::new(Inner {
            engine,
            host,
            sin: self.0,
            turn: tokio::sync::Mutex::default(),
        })))
    }
}

struct Connection(Arc<Inner>);

struct Inner {
    engine: AnyEngine,
    host: Arc<dyn Runtime>,
    sin: Option<Sin>,
    /// Held by a renewal, where renewals take turns.
    turn: tokio::sync::Mutex<()>,
}

/// One ticket and its state.
struct Stay {
    inner: Arc<Inner>,
    ticket: Ticket,
    known: Mutex<Known>,
}

#[derive(Clone, Copy)]
struct Known {
    number: Option<u64>,
    deadline: Time,
    lost: bool,
    over: bool,
}

impl Client for Connection {
    fn lock(&self, key: &str, ttl: Duration, wait: Option<Duration>) -> Locking {
        let (inner, key) = (self.0.clone(), Key::new(key));
        Box::pin(async move { inner.lock(key?, ttl, wait).await })
    }
}

impl Inner {
    fn sins(&self, sin: Sin) -> bool {
        self.sin == Some(sin)
    }

    async fn lock(
        self: Arc<Self>,
        key: Key,
        ttl: Duration,
        wait: Option<Duration>,
    ) -> Result<Option<Box<dyn Claim>>> {
        let mut ends = wait.map(|wait| self.host.now().plus(wait));
        let patience = if wait == Some(Duration::ZERO) { WaitMode::NoWait } else { WaitMode::Wait };
        loop {
            let mut claim = Held { stay: Stay::new(&self, &key, ttl), stays: false, token: 0 };
            let Some(()) = claim.stay.join(patience, ends, &mut claim.stays).await? else {
                return Ok(None);
            };
            claim.stay.clone().keep();
            loop {
                let known = claim.stay.judge();
                if let Some(number) = known.number.filter(|_| !known.lost) {
                    claim.stays = false;
                    let own = self.sins(Sin::TokenFromOwnClock);
                    claim.token = if own { self.host.wall_us() } else { number };
                    return Ok(Some(Box::new(claim)));
                }
                if known.lost || known.over {
                    break;
                }
                let left = ends.map(|ends| self.host.now().until(ends));
                if left == Some(Duration::ZERO) {
                    return Ok(None);
                }
                claim.stays = self.sins(Sin::StaysWhenCancelled);
                claim.stay.wait(left).await;
                if self.sins(Sin::WaitsAnew) {
                    ends = wait.map(|wait| self.host.now().plus(wait));
                }
            }
        }
    }
}

impl Stay {
    fn new(inner: &Arc<Inner>, key: &Key, ttl: Duration) -> Arc<Self> {
        let ticket = Ticket {
            id: TicketId::fresh(),
            key: key.clone(),
            share: Share::WHOLE,
            ttl,
            owner: Owner::shortened("naive"),
            note: Note::default(),
            floor: 0,
        };
        let known = Known { number: None, deadline: Time::NEVER, lost: false, over: false };
        Arc::new(Self { inner: inner.clone(), ticket, known: Mutex::new(known) })
    }

    /// Joins and waits. `None`: the lock is held, or the time limit passed.
    async fn join(
        &self,
        patience: WaitMode,
        ends: Option<Time>,
        stays: &mut bool,
    ) -> Result<Option<()>> {
        *stays = self.inner.sins(Sin::StaysWhenCancelled);
        let sent = self.now();
        let joined = self.inner.engine.join(&self.ticket, patience);
        let left = ends.filter(|_| patience == WaitMode::Wait).map(|ends| sent.until(ends));
        let joined = match left {
            None => joined.await,
            Some(left) => match self.within(left, joined).await {
                Some(joined) => joined,
                None => return Ok(None),
            },
        };
        match joined {
            Ok(Some(place)) => self.hear(sent, &Ok(Some(place))),
            Ok(None) => return Ok(None),
            Err(_) if self.inner.sins(Sin::TakesUnknownForGranted) => {
                let mut known = self.known();
                known.number = Some(0);
                known.deadline = sent.plus(self.usable(self.ticket.ttl));
            }
            Err(error) => {
                *stays = self.inner.sins(Sin::ForgetsUnknownJoins);
                return Err(error);
            }
        }
        Ok(Some(()))
    }

    /// Waits for a notification, for a tenth of the ttl at most, and renews.
    async fn wait(&self, left: Option<Duration>) {
        let rung = self.inner.engine.watch(&self.ticket, TicketState::Waiting);
        if self.inner.sins(Sin::WaitsForTheBell) {
            self.within(left.unwrap_or(Duration::MAX), rung).await;
        } else {
            let nap = self.ticket.ttl / 10;
            self.within(left.map_or(nap, |left| left.min(nap)), rung).await;
        }
        self.renew(left).await;
    }

    /// Renews, and returns whether there was an answer.
    async fn renew(&self, at_most: Option<Duration>) -> bool {
        let sent = self.now();
        let renewal = self.inner.engine.renew(&self.ticket);
        let hangs = [Sin::NoticesOnRenewal, Sin::RenewsInTurn, Sin::RevivesTheDead]
            .iter()
            .any(|sin| self.inner.sins(*sin));
        let patience = if hangs { Duration::MAX } else { self.ticket.ttl / 6 };
        let patience = at_most.map_or(patience, |at_most| patience.min(at_most));
        let answer = self.within(patience, renewal).await;
        let answered = matches!(answer, Some(Ok(_)));
        if at_most.is_none() || answered {
            self.hear(sent, &answer.unwrap_or_else(|| Err(Error::unavailable("no answer"))));
        }
        answered
    }

    fn hear(&self, sent: Time, answer: &Result<Option<Place>>) {
        let now = self.now();
        let sins = |sin| self.inner.sins(sin);
        self.judge();
        let mut known = self.known();
        let may_come_back = sins(Sin::Flaps) || sins(Sin::RevivesTheDead);
        if known.over || (known.lost && !may_come_back) {
            return;
        }
        match answer {
            Ok(Some(place)) if !place.leaving => {
                let from = if sins(Sin::CountsFromTheReply) { now } else { sent };
                let life = place.life.unwrap_or(self.ticket.ttl);
                let deadline = from.plus(self.usable(life));
                let first = known.deadline == Time::NEVER;
                known.deadline = if first { deadline } else { known.deadline.max(deadline) };
                known.lost = false;
                if place.state == TicketState::Holding && !now.has_reached(known.deadline) {
                    known.number.get_or_insert(place.number);
                }
            }
            Ok(_) => known.lost = true,
            Err(_) => known.lost |= sins(Sin::Flaps) || sins(Sin::GivesUpAtFirstTrouble),
        }
    }

    /// The state by the clock.
    fn judge(&self) -> Known {
        let now = self.now();
        let mut known = self.known();
        let late = known.number.is_some() && now.has_reached(known.deadline);
        if late && !self.inner.sins(Sin::NoticesOnRenewal) {
            known.lost = true;
        }
        *known
    }

    /// Renews until the ticket ends.
    fn keep(self: Arc<Self>) {
        let host = self.inner.host.clone();
        host.spawn(Box::pin(async move {
            let mut pause = self.ticket.ttl / 4;
            while !self.is_finished() {
                self.inner.host.sleep(pause).await;
                if !self.is_finished() {
                    let turn = self.inner.turn.lock();
                    let _guard =
                        if self.inner.sins(Sin::RenewsInTurn) { Some(turn.await) } else { None };
                    let answered = self.renew(None).await;
                    pause = self.ticket.ttl / if answered { 4 } else { 20 };
                }
            }
        }));
    }

    fn is_finished(&self) -> bool {
        let known = *self.known();
        let may_come_back = self.inner.sins(Sin::Flaps) || self.inner.sins(Sin::RevivesTheDead);
        if known.over {
            !self.inner.sins(Sin::RenewsAfterRelease)
        } else {
            known.lost && !may_come_back
        }
    }

    /// Removes the ticket, with retries.
    async fn sweep(self: Arc<Self>) {
        let ended = self.inner.host.now().plus(self.ticket.ttl);
        while !self.inner.host.now().has_reached(ended) {
            let left = self.inner.engine.leave(&self.ticket, LeaveMode::Now).await;
            if matches!(left, Ok(LeaveOutcome::Holding | LeaveOutcome::Waiting)) {
                return;
            }
            self.inner.host.sleep(self.ticket.ttl / 20).await;
        }
    }

    async fn within<T>(&self, time: Duration, work: impl Future<Output = T>) -> Option<T> {
        match select(pin!(work), self.inner.host.sleep(time)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => None,
        }
    }

    fn usable(&self, life: Duration) -> Duration {
        if self.inner.sins(Sin::CountsTheWholeTtl) {
            return life;
        }
        let margin = Duration::from_millis(50).max(life / 100);
        life.saturating_sub(life / 100).saturating_sub(margin)
    }

    fn now(&self) -> Time {
        let now = self.inner.host.now();
        if self.inner.sins(Sin::SleepsThroughSleep) {
            return Time { boot_ns: now.raw_ns, raw_ns: now.raw_ns };
        }
        now
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }
}
