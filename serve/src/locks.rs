//! Locks over HTTP: acquire, renew and release a ticket by an id that the client has chosen.
//!
//! The service keeps nothing of a hold: the ticket is in the store, and its id is a hash of the
//! client's id. So a service may be restarted, and several may serve one store. No task renews a
//! ticket after its request, so it expires when its client renews no more.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tenure_core::layers::AnyEngine;
use tenure_core::toolbox::engine_of;
use tenure_core::{
    Engine as _, LeaveMode, LeaveOutcome, Liveness, Locks, Place, Share, Ticket, TicketId,
    TicketState, WaitMode,
};
use tenure_kit::rate_limiter::RateLimiter;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};

use crate::reply::HttpRefusal;

/// Maximum requests that wait for a lock.
pub(crate) const WAITS_MAX: usize = 256;
/// Maximum time between two looks at a ticket that waits: a push may be lost.
const LOOK_EACH: Duration = Duration::from_secs(5);
/// Pause after the store did not answer a request that waits.
const PAUSE: Duration = Duration::from_millis(200);
/// Minimum difference between the end of a lease in the store and its end for the client.
const MARGIN: Duration = Duration::from_millis(50);

/// Acquisitions that may follow each other without a pause, of all clients together.
const AT_ONCE: u32 = 200;
/// Interval of the acquisitions after those.
const EACH: Duration = Duration::from_millis(5);

/// Takes locks for clients.
pub(crate) struct LockDesk {
    locks: Locks,
    acquisitions: Mutex<RateLimiter>,
    waits: Semaphore,
    requests: Mutex<HashMap<TicketId, OpenRequests>>,
    /// The service ends: requests that wait are answered.
    ending: watch::Sender<bool>,
}

/// The result of an attempt to take a lock.
#[derive(Debug)]
pub(crate) enum Acquired {
    Held(Held),
    /// The ticket keeps its place in the line until its ttl is over.
    Waiting {
        number: u64,
    },
    /// The lock was busy, and the client does not wait.
    Busy,
}

/// A ticket that holds.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) number: u64,
    /// The fencing token of an exclusive holder.
    token: Option<u64>,
    /// The time in which the client may rely on the lock, from the moment before it sent the
    /// request.
    expires_in: Duration,
}

/// The open requests that want one ticket.
#[derive(Default)]
struct OpenRequests {
    count: usize,
    /// The client of one of them has its answer.
    is_answered: bool,
    /// The ticket is being withdrawn. The channel ends afterwards.
    withdrawal: Option<watch::Receiver<()>>,
}

/// The withdrawal of a ticket. Requests for the same ticket wait until this is dropped.
pub(crate) struct Withdrawal<'a> {
    desk: &'a LockDesk,
    ticket: TicketId,
    _ended: watch::Sender<()>,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.desk.requests().remove(&self.ticket);
    }
}

impl LockDesk {
    pub(crate) fn new(locks: Locks) -> Self {
        Self {
            locks,
            acquisitions: Mutex::new(RateLimiter::new(AT_ONCE, EACH)),
            waits: Semaphore::new(WAITS_MAX),
            requests: Mutex::default(),
            ending: watch::Sender::new(false),
        }
    }

    /// Takes one acquisition, if the rate permits it.
    pub(crate) fn take_one(&self, now: Instant) -> Result<(), HttpRefusal> {
        let mut limiter = self.acquisitions.lock().unwrap_or_else(PoisonError::into_inner);
        if limiter.turn(now.into_std(), 0, Duration::ZERO).is_some() {
            return Ok(());
        }
        let each = EACH.as_millis();
        let sentence =
            format!("too many acquisitions: {AT_ONCE} at once, and one each {each} ms after");
        Err(HttpRefusal::new(StatusCode::TOO_MANY_REQUESTS, sentence))
    }

    /// Answers all requests that wait, and lets no other wait.
    pub(crate) fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Takes a lock, and waits for it for at most `wait`, or until the client `is_gone`. Sent again
    /// with the same id, it finds the same ticket.
    pub(crate) async fn acquire(
        &self,
        ticket: &Ticket,
        wait: Duration,
        is_gone: impl Future<Output = ()>,
    ) -> Result<Acquired, HttpRefusal> {
        let (engine, began) = (self.engine()?, Instant::now());
        let permit = if wait.is_zero() { None } else { self.waits.try_acquire().ok() };
        if permit.is_some() {
            return self.wait(&engine, ticket, began, wait, is_gone).await;
        }
        let acquired = match engine.join(ticket, WaitMode::NoWait).await? {
            None => Acquired::Busy,
            Some(place) => self.standing(ticket, place, Duration::ZERO)?,
        };
        if wait.is_zero() || matches!(acquired, Acquired::Held(_)) {
            return Ok(acquired);
        }
        let sentence = format!(
            "the lock is busy, and {WAITS_MAX} requests wait already, which is the maximum"
        );
        Err(HttpRefusal::new(StatusCode::SERVICE_UNAVAILABLE, sentence))
    }

    /// Counts a request that wants a ticket, once a withdrawal of it has ended.
    pub(crate) async fn open(&self, ticket: TicketId) {
        while let Some(mut withdrawal) = self.count(ticket) {
            // The error means that it has ended.
            let _ = withdrawal.changed().await;
        }
    }

    /// Counts a request, if its ticket is not being withdrawn.
    fn count(&self, ticket: TicketId) -> Option<watch::Receiver<()>> {
        let mut requests = self.requests();
        let open = requests.entry(ticket).or_default();
        if open.withdrawal.is_none() {
            open.count += 1;
        }
        open.withdrawal.clone()
    }

    /// Ends a request. Returns a withdrawal if no client has got an answer for the ticket and no
    /// other request wants it.
    pub(crate) fn close(&self, ticket: TicketId, is_answered: bool) -> Option<Withdrawal<'_>> {
        let mut requests = self.requests();
        let Entry::Occupied(mut entry) = requests.entry(ticket) else { return None };
        let open = entry.get_mut();
        open.count -= 1;
        open.is_answered |= is_answered;
        if open.count > 0 {
            return None;
        }
        if open.is_answered {
            entry.remove();
            return None;
        }
        let (ended, withdrawal) = watch::channel(());
        open.withdrawal = Some(withdrawal);
        Some(Withdrawal { desk: self, ticket, _ended: ended })
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<TicketId, OpenRequests>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait(
        &self,
        engine: &AnyEngine,
        ticket: &Ticket,
        began: Instant,
        wait: Duration,
        is_gone: impl Future<Output = ()>,
    ) -> Result<Acquired, HttpRefusal> {
        let mut is_gone = pin!(is_gone);
        let mut ending = self.ending.subscribe();
        let mut sent = began.elapsed();
        // put the ticket at the back of the line
        let mut place = engine.join(ticket, WaitMode::Wait).await?;
        loop {
            let now = place.ok_or_else(|| {
                HttpRefusal::gone("the ticket expired in the line, or was removed")
            })?;
            let left = wait.saturating_sub(began.elapsed());
            let is_over = left.is_zero() || *ending.borrow_and_update();
            if now.state == TicketState::Holding || is_over {
                return self.standing(ticket, now, sent);
            }
            // wait for the push; the renewal keeps the ticket in the line and finds a lost push
            let look = now.look.unwrap_or(LOOK_EACH).min(LOOK_EACH).min(ticket.ttl / 3).min(left);
            // without pushes the renewal finds the change
            let watched = async {
                if let Err(error) = engine.watch(ticket, TicketState::Waiting).await {
                    sleep(if error.is_retryable() { PAUSE } else { look }).await;
                }
            };
            tokio::select! {
                () = watched => {}
                () = sleep(look) => {}
                // an error means that the desk is gone, and then so is this request
                _ = ending.changed() => {}
                // the caller withdraws the ticket
                () = &mut is_gone => return Ok(Acquired::Waiting { number: now.number }),
            }
            sent = began.elapsed();
            place = engine.renew(ticket).await?;
        }
    }

    /// Renews a hold, which has this number.
    pub(crate) async fn renew(&self, ticket: &Ticket, number: u64) -> Result<Held, HttpRefusal> {
        let place = self.engine()?.renew(ticket).await?;
        let place = place
            .ok_or_else(|| HttpRefusal::gone("the lock is lost: it expired, or was removed"))?;
        if place.number != number {
            return Err(HttpRefusal::gone(
                "the lock is lost: another ticket was taken with its id",
            ));
        }
        if place.state == TicketState::Waiting {
            let sentence = "the ticket waits, and does not hold";
            let refused = HttpRefusal::new(StatusCode::CONFLICT, sentence).with_cause("waiting");
            return Err(refused.with_cure("send the POST again with the same id"));
        }
        self.held(ticket, place, Duration::ZERO)
    }

    /// Releases a hold, or takes a waiter out of the line. Returns whether the ticket was there.
    pub(crate) async fn release(
        &self,
        ticket: &Ticket,
        mode: LeaveMode,
    ) -> Result<bool, HttpRefusal> {
        Ok(self.engine()?.leave(ticket, mode).await? != LeaveOutcome::Absent)
    }

    /// The note of the first holder of a key, and its owner's name.
    pub(crate) async fn holder(&self, ticket: &Ticket) -> Result<Option<[String; 2]>, HttpRefusal> {
        let line = self.locks.line(&ticket.key).await?;
        Ok(line.first().map(|first| [first.note.to_string(), first.owner.to_string()]))
    }

    /// The engine. Refuses stores whose tickets live by their process: such a hold would end with
    /// the service while its client still relies on it.
    fn engine(&self) -> Result<AnyEngine, HttpRefusal> {
        let all = self.locks.guarantees();
        if matches!(all.liveness, Liveness::Kernel | Liveness::Session) {
            let sentence = format!("{} keeps a lock only while its process lives", all.store);
            let cure = "serve a store whose tickets have a lease: Redis, MongoDB, PostgreSQL, \
                        MariaDB or MySQL";
            return Err(HttpRefusal::new(StatusCode::NOT_IMPLEMENTED, sentence).with_cure(cure));
        }
        Ok(engine_of(&self.locks)?)
    }

    /// The answer for a ticket in the line. An earlier request may have put it there.
    fn standing(
        &self,
        ticket: &Ticket,
        place: Place,
        sent: Duration,
    ) -> Result<Acquired, HttpRefusal> {
        match place.state {
            TicketState::Holding => self.held(ticket, place, sent).map(Acquired::Held),
            TicketState::Waiting => Ok(Acquired::Waiting { number: place.number }),
        }
    }

    /// The answer for a ticket that holds. `sent` is the time from the request to the message to
    /// the store: the client sent its request before that, so its clock may add it.
    fn held(&self, ticket: &Ticket, place: Place, sent: Duration) -> Result<Held, HttpRefusal> {
        if place.leaving {
            let sentence = "the lock is lost: its holder was asked to leave";
            let refused = HttpRefusal::new(StatusCode::CONFLICT, sentence).with_cause("broken");
            return Err(refused.with_cure("stop the work, and release the lock with DELETE"));
        }
        let life = place.life.unwrap_or(ticket.ttl).min(ticket.ttl);
        let life = life.saturating_sub(self.locks.guarantees().rounding);
        Ok(Held {
            number: place.number,
            token: (ticket.share == Share::WHOLE).then_some(place.number),
            // 1 % for the drift of each clock
            expires_in: ((sent + life) / 100 * 98).saturating_sub(MARGIN),
        })
    }
}

impl Held {
    /// The hold as an answer.
    pub(crate) fn shown(&self, ticket: &Ticket) -> Value {
        let Self { number, token, expires_in } = self;
        let expires_in = u64::try_from(expires_in.as_millis()).unwrap_or(u64::MAX);
        json!({
            "state": "held",
            "ticket": ticket.id.to_string(),
            "number": number,
            "token": token,
            "expires_in_ms": expires_in,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use futures_util::FutureExt as _;
    use tenure_core::{Key, Memory};

    use super::*;

    #[test]
    fn acquisitions_are_limited_in_their_rate() {
        let (desk, now) = (LockDesk::new(Locks::new(Memory::new())), Instant::now());
        let taken = (0..1_000).filter(|_| desk.take_one(now).is_ok()).count();
        assert_eq!(taken, AT_ONCE as usize);
        assert!(desk.take_one(now + EACH).is_ok(), "time has passed");
    }

    #[tokio::test]
    async fn a_ticket_is_withdrawn_after_its_last_request_if_none_was_answered() {
        let (desk, ticket) = (LockDesk::new(Locks::new(Memory::new())), TicketId::from_u128(1));
        for (first, second, is_withdrawn) in
            [(false, false, true), (true, false, false), (false, true, false)]
        {
            desk.open(ticket).await;
            desk.open(ticket).await;
            assert!(desk.close(ticket, first).is_none(), "another request is open");
            assert_eq!(desk.close(ticket, second).is_some(), is_withdrawn);
            assert!(desk.requests().is_empty());
        }
    }

    #[tokio::test]
    async fn a_request_waits_until_the_withdrawal_of_its_ticket_has_ended() {
        let (desk, ticket) = (LockDesk::new(Locks::new(Memory::new())), TicketId::from_u128(1));
        desk.open(ticket).await;
        let withdrawal = desk.close(ticket, false).expect("no client has an answer");
        let mut again = pin!(desk.open(ticket));
        assert!(again.as_mut().now_or_never().is_none(), "the leave may still remove the ticket");
        drop(withdrawal);
        again.await;
        assert!(desk.close(ticket, true).is_none());
    }

    #[tokio::test]
    async fn a_free_lock_is_taken_although_no_request_may_wait() {
        let desk = LockDesk::new(Locks::new(Memory::new()));
        let _all = desk.waits.try_acquire_many(256).unwrap();
        let (key, wait) = (Key::new("k").unwrap(), Duration::from_secs(30));
        let [one, other] = [Ticket::new(key.clone(), Share::WHOLE), Ticket::new(key, Share::WHOLE)];
        let held = desk.acquire(&one, wait, pending()).await.unwrap();
        assert!(matches!(held, Acquired::Held(_)), "{held:?}");
        let refused = desk.acquire(&other, wait, pending()).await.unwrap_err();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    }
}
