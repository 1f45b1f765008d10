//! Takes a lock: joins the line, then waits until the ticket is served.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tracing::Instrument as _;

use crate::background::backoff::Backoff;
use crate::background::client::Client;
use crate::background::lease::Lease;
use crate::background::listener::until;
use crate::lease::figures::{self, Meter};
use crate::lease::options::RenewalSchedule;
use crate::lease::shared::SharedLease;
use crate::lease::span::shown;
use crate::lease::state::{LeaseState, State};
use crate::lease::telemetry::LockAttempt;
use crate::sync::Mutex;
use crate::{
    Engine as _, Error, Key, Liveness, Loss, Place, Result, Ticket, TicketId, TicketState, Time,
    WaitMode,
};

/// Pauses before another ticket joins: a store may remove each ticket as soon as it joins.
const REJOIN: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    For(Duration),
    Ever,
}

/// The ticket that is in the line, once the store has confirmed it.
#[derive(Default)]
struct InLine(Mutex<Option<Arc<SharedLease>>>);

impl InLine {
    fn set(&self, shared: Option<Arc<SharedLease>>) {
        *self.0.lock() = shared;
    }

    fn take(&self) -> Option<Arc<SharedLease>> {
        self.0.lock().take()
    }
}

/// Gets a lease for this ticket, or `None` if the lock is busy for as long as the caller waits. The
/// ticket has a new id; further attempts get others.
pub(crate) async fn acquire(
    client: &Arc<Client>,
    ticket: Ticket,
    schedule: RenewalSchedule,
    meter: Meter,
    wait: Wait,
) -> Result<Option<Lease>> {
    let attempt = LockAttempt::begin(meter, &ticket);
    // In a box, so that the futures of callers are small.
    let taken = Box::pin(take(client, ticket, schedule, meter, wait));
    let mut taken = taken.instrument(attempt.span.clone()).await;
    match &mut taken {
        Ok(Some(lease)) => {
            lease.hold = Some(attempt.holds(&lease.shared.key, lease.shared.id, lease.number));
        }
        Ok(None) if matches!(wait, Wait::For(time) if !time.is_zero()) => attempt.end("timeout"),
        Ok(None) => attempt.end("busy"),
        Err(error) => attempt.end(figures::failure(error)),
    }
    taken
}

async fn take(
    client: &Arc<Client>,
    ticket: Ticket,
    schedule: RenewalSchedule,
    meter: Meter,
    wait: Wait,
) -> Result<Option<Lease>> {
    client.runtime.ready()?;
    client.releaser.room()?;
    if client.renewer.has_ended() {
        return Err(Error::closed().with_key(&ticket.key));
    }
    let (key, in_line) = (ticket.key.clone(), InLine::default());
    let (mode, time) = match wait {
        Wait::Never | Wait::For(Duration::ZERO) => (WaitMode::NoWait, None),
        Wait::For(time) => (WaitMode::Wait, Some(time)),
        Wait::Ever => (WaitMode::Wait, None),
    };
    let held = pin!(join_and_wait(client, ticket, schedule, meter, mode, &in_line));
    let Some(time) = time else { return held.await };
    match select(held, client.runtime.sleep(time)).await {
        Either::Left((held, _)) => held,
        Either::Right(_) => timed_out(client, &key, &in_line, time).map(|()| None),
    }
}

async fn join_and_wait(
    client: &Arc<Client>,
    mut ticket: Ticket,
    schedule: RenewalSchedule,
    meter: Meter,
    mode: WaitMode,
    in_line: &InLine,
) -> Result<Option<Lease>> {
    let mut backoff = REJOIN;
    loop {
        // With sessions, a client may have a limited number of tickets in a line.
        let slot = match mode {
            WaitMode::Wait if client.guarantees.liveness == Liveness::Session => {
                Some(client.admission.admit(&ticket.key).await)
            }
            _ => None,
        };
        // From here on the ticket leaves the line if this future is dropped.
        let mut lease = Lease::new(client, ticket.clone(), schedule, meter, slot);
        // Put self at the back of the line. A free lock is held after this one request.
        let sent = client.runtime.now();
        let Some(place) = join(client, &mut lease, mode).await? else { return Ok(None) };
        let state = lease.shared.apply(sent, client.runtime.now(), Ok(Some(place)));
        if mode == WaitMode::NoWait && !matches!(state, State::Holding(_)) {
            return Err(Error::unavailable(format!(
                "{} answered too late: the lock {:?} that it granted has expired",
                client.guarantees.store, ticket.key
            )));
        }
        in_line.set(Some(lease.shared.clone()));
        // Keep the ticket alive while it waits and while it holds.
        client.renewer.keep(&lease.shared);
        // Wait for the push, or for the renewal, that says that it is served.
        let shared = lease.shared.clone();
        let judge = || shared.with(|lease| judge(&shared.key, lease, client.runtime.now()));
        match until(client, &shared, TicketState::Waiting, judge).await? {
            Waited::Served(number) => return Ok(Some(lease.into_served(number))),
            // The process was suspended for longer than the ttl: go to the back of the line, with
            // another id.
            Waited::Expired => drop(lease),
        }
        client.runtime.sleep(backoff.next(client.runtime.random())).await;
        in_line.set(None);
        ticket.id = TicketId::fresh();
    }
}

/// Joins the line. A join whose answer is lost is sent again with the same id: twice is once.
async fn join(client: &Client, lease: &mut Lease, mode: WaitMode) -> Result<Option<Place>> {
    let ticket = lease.shared.ticket();
    let mut attempts = client.retries.begin(&*client.runtime, client.guarantees.answers_within);
    loop {
        // `close` refuses new tickets, then waits for those that are counted: this one is refused
        // or counted.
        if client.renewer.has_ended() {
            return Err(Error::closed().with_key(&ticket.key));
        }
        lease.sends_join();
        let joined = attempts.send(&*client.runtime, || client.engine.join(&ticket, mode)).await;
        match &joined {
            Ok(Some(_)) => lease.has_joined(),
            Ok(None) => lease.is_refused(),
            Err(error) if !error.is_retryable() => lease.is_refused(),
            Err(_) if attempts.pause(&*client.runtime).await? => continue,
            Err(_) if client.renewer.has_ended() => {
                return Err(Error::closed().with_key(&ticket.key));
            }
            Err(_) => {}
        }
        return attempts.outcome(joined);
    }
}

/// The result when the time is over: the lock was busy, or it is unknown whether it was.
fn timed_out(client: &Client, key: &Key, in_line: &InLine, time: Duration) -> Result<()> {
    match in_line.take() {
        Some(shared) => shared.with(|lease| lease.trouble_since(0)).map_or(Ok(()), Err),
        None => Err(Error::unavailable(format!(
            "{} did not answer within {} whether {key:?} is free",
            client.guarantees.store,
            shown(time)
        ))),
    }
}

/// The end of a wait.
enum Waited {
    Served(u64),
    /// The ticket expired while it waited, because the process was suspended.
    Expired,
}

fn judge(key: &Key, lease: &mut LeaseState, now: Time) -> Option<Result<Waited>> {
    match lease.judge(now) {
        State::Holding(number) => Some(Ok(Waited::Served(number))),
        State::Lost(Loss::Expired | Loss::SessionGone) => Some(Ok(Waited::Expired)),
        State::Lost(Loss::Closed) => Some(Err(Error::closed().with_key(key))),
        State::Lost(loss) => Some(Err(Error::lost_in_line(key, loss, lease.number()))),
        State::Asked | State::Waiting | State::Released => {
            lease.reason_to_give_up(now).cloned().map(Err)
        }
    }
}
