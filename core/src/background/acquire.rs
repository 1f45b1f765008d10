//! Takes a lock: joins the line, then waits until the ticket is served.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::api::guard::{Guard, LeaveOnDrop};
use crate::api::locks::Inner;
use crate::background::backoff::backoff;
use crate::background::listener::Listener;
use crate::lease::options::RenewalSchedule;
use crate::lease::shared::SharedLease;
use crate::lease::span::shown;
use crate::lease::state::{LeaseState, State};
use crate::{
    Engine as _, Error, Key, Liveness, Loss, Result, Ticket, TicketId, TicketState, Time, WaitMode,
};

/// First pause before another ticket joins: a store may remove each ticket as soon as it joins.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a caller waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Never,
    For(Duration),
    Ever,
}

/// The result of one ticket.
enum Outcome {
    Held(Guard),
    Busy,
    /// The ticket expired while it waited, because the process was suspended. Another one joins at
    /// the back.
    Slept,
}

/// The ticket that is in the line, once the store has confirmed it.
#[derive(Default)]
struct InLine(Mutex<Option<Arc<SharedLease>>>);

impl InLine {
    fn set(&self, kept: Option<&Arc<SharedLease>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = kept.cloned();
    }

    /// The result when the time is over: the lock was busy, or it is unknown whether it was.
    fn in_vain(&self, store: &str, key: &Key, time: Duration) -> Result<()> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        match kept {
            Some(kept) => kept.with(|hold| hold.trouble_since(0)).map_or(Ok(()), Err),
            None => Err(Error::unavailable(format!(
                "{store} did not answer within {} whether {key:?} is free",
                shown(time)
            ))),
        }
    }
}

/// Gets a guard for this ticket, or `None` if the lock is busy for as long as the caller waits. The
/// ticket has a new id; further attempts get others.
pub(crate) async fn acquire(
    inner: &Arc<Inner>,
    ticket: &Ticket,
    rhythm: RenewalSchedule,
    wait: Wait,
) -> Result<Option<Guard>> {
    inner.host.ready()?;
    inner.sweeper.room()?;
    if inner.keeper.has_ended() {
        return Err(Error::closed(&ticket.key));
    }
    let in_line = InLine::default();
    match wait {
        Wait::Never | Wait::For(Duration::ZERO) => {
            acquire_with(inner, ticket, rhythm, WaitMode::NoWait, &in_line).await
        }
        Wait::Ever => acquire_with(inner, ticket, rhythm, WaitMode::Wait, &in_line).await,
        Wait::For(time) => {
            let acquired = pin!(acquire_with(inner, ticket, rhythm, WaitMode::Wait, &in_line));
            match select(acquired, inner.host.sleep(time)).await {
                Either::Left((acquired, _)) => acquired,
                Either::Right(((), _)) => {
                    in_line.in_vain(&inner.profile.store, &ticket.key, time).map(|()| None)
                }
            }
        }
    }
}

async fn acquire_with(
    inner: &Arc<Inner>,
    ticket: &Ticket,
    rhythm: RenewalSchedule,
    patience: WaitMode,
    in_line: &InLine,
) -> Result<Option<Guard>> {
    let (mut ticket, mut slept) = (ticket.clone(), 0);
    loop {
        match attempt(inner, ticket.clone(), rhythm, patience, in_line).await? {
            Outcome::Held(guard) => return Ok(Some(guard)),
            Outcome::Busy => return Ok(None),
            // Each attempt has an id of its own.
            Outcome::Slept => {
                let pause = backoff(PAUSE_FIRST, PAUSE_MAX, slept, inner.host.random());
                inner.host.sleep(pause).await;
                // A caller that gives up during the pause has had an answer.
                in_line.set(None);
                slept = slept.saturating_add(1);
                ticket.id = TicketId::fresh();
            }
        }
    }
}

async fn attempt(
    inner: &Arc<Inner>,
    ticket: Ticket,
    rhythm: RenewalSchedule,
    patience: WaitMode,
    in_line: &InLine,
) -> Result<Outcome> {
    let slot = match patience {
        // In other stores each ticket has a lease, and a few requests remove many tickets.
        WaitMode::Wait if inner.profile.liveness == Liveness::Session => {
            Some(inner.admission.admit(&ticket.key).await)
        }
        _ => None,
    };
    let mut entry = LeaveOnDrop::new(SharedLease::new(ticket.clone(), rhythm), inner.clone(), slot);
    // `close` refuses new tickets, then waits for those that are counted: this one is refused or
    // counted.
    if inner.keeper.has_ended() {
        entry.has_left();
        return Err(Error::closed(&ticket.key));
    }
    let sent = inner.host.now();
    let joined = inner.engine.join(&ticket, patience).await;
    match joined {
        Ok(Some(_)) => {
            entry.has_joined();
            in_line.set(Some(&entry.kept));
        }
        Ok(None) => {
            entry.has_left();
            return Ok(Outcome::Busy);
        }
        Err(error) => {
            let is_retryable = error.is_retryable();
            if !is_retryable {
                entry.has_left();
            }
            let is_closed = is_retryable && inner.keeper.has_ended();
            return Err(if is_closed { Error::closed(&ticket.key) } else { error });
        }
    }
    let state = entry.kept.hear(sent, inner.host.now(), joined);
    if patience == WaitMode::NoWait && !matches!(state, State::Holding(_)) {
        return Err(Error::unavailable(format!(
            "{} answered too late: the lock {:?} that it granted has expired",
            inner.profile.store, ticket.key
        )));
    }
    inner.keeper.keep(&entry.kept);
    wait(inner, entry).await
}

/// The end of a wait.
enum Verdict {
    Served(u64),
    Slept,
    Failed(Error),
}

async fn wait(inner: &Arc<Inner>, mut entry: LeaveOnDrop) -> Result<Outcome> {
    let kept = entry.kept.clone();
    let verdict = Listener::new(inner, &kept)
        .until(TicketState::Waiting, || kept.with(|hold| judge(&kept.key, hold, inner.host.now())))
        .await;
    match verdict {
        Verdict::Served(number) => {
            entry.is_served();
            Ok(Outcome::Held(Guard::new(entry, number)))
        }
        Verdict::Slept => Ok(Outcome::Slept),
        Verdict::Failed(error) => Err(error),
    }
}

fn judge(key: &Key, hold: &mut LeaseState, now: Time) -> Option<Verdict> {
    match hold.judge(now) {
        State::Holding(number) => Some(Verdict::Served(number)),
        State::Lost(Loss::Expired | Loss::SessionGone) => Some(Verdict::Slept),
        State::Lost(Loss::Closed) => Some(Verdict::Failed(Error::closed(key))),
        State::Lost(loss) => Some(Verdict::Failed(Error::lost_in_line(key, loss, hold.number()))),
        State::Asked | State::Waiting | State::Released => {
            hold.hopeless(now).cloned().map(Verdict::Failed)
        }
    }
}
