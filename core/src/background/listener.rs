//! Waits for a change of one ticket: for the store's push, and for the renewer.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::background::backoff::Backoff;
use crate::background::client::Client;
use crate::lease::shared::SharedLease;
use crate::lease::state::State;
use crate::{Engine as _, Ticket, TicketState, Wake};

/// Pauses before a request is sent again after a failure. A change may have happened meanwhile.
const WATCH_AGAIN: Backoff = Backoff::new(Duration::from_millis(20), PAUSE_MAX);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Calls `done` after each possible change of the ticket, until it returns an answer. The engine's
/// `watch` goes on while the ticket is renewed.
pub(crate) async fn until<T>(
    client: &Client,
    shared: &SharedLease,
    seen: TicketState,
    mut done: impl FnMut() -> Option<T>,
) -> T {
    if let Some(answer) = done() {
        return answer;
    }
    let ticket = shared.ticket();
    // On the heap, because most locks are free and do not need it.
    let mut push = Box::pin(push(client, shared, &ticket, seen, WATCH_AGAIN));
    loop {
        let mut changed = pin!(shared.changed());
        changed.as_mut().enable();
        if let Some(answer) = done() {
            return answer;
        }
        if shared.with(|lease| lease.is_over()) {
            // The lease is over, so the store is not asked again.
            changed.await;
        } else if let Either::Right((backoff, _)) = select(changed, push.as_mut()).await {
            push.set(self::push(client, shared, &ticket, seen, backoff));
        }
    }
}

/// Waits for a push, and reads the ticket's state. A push is a hint and the renewal is the truth:
/// while renewals fail, they alone find out when the store is back. Returns the backoff for the
/// next call.
async fn push(
    client: &Client,
    shared: &SharedLease,
    ticket: &Ticket,
    seen: TicketState,
    mut backoff: Backoff,
) -> Backoff {
    let runtime = &*client.runtime;
    let began = runtime.now();
    let woken = client.engine.watch(ticket, seen).await;
    if began.until(runtime.now()) > PAUSE_MAX {
        backoff.reset();
    }
    // Until this function returns, what is learned is learned because of the push.
    shared.set_pushed(woken.is_ok());
    match woken {
        Ok(Wake::Served(number)) if seen == TicketState::Waiting => {
            let now = runtime.now();
            let state = shared.with(|lease| {
                lease.apply_served(now, number);
                lease.state()
            });
            client.renewer.reschedule(shared);
            if !matches!(state, State::Holding(_)) {
                look(client, shared).await;
            }
        }
        Ok(_) => look(client, shared).await,
        Err(_) if shared.with(|lease| lease.failed() > 0) => {}
        // The last renewal succeeded, so only this request failed.
        Err(error) if error.is_retryable() => {
            runtime.sleep(backoff.next(runtime.random())).await;
        }
        // Without push, the next renewal reads the state.
        Err(_) => shared.changed().await,
    }
    shared.set_pushed(false);
    renewed(shared).await;
    backoff
}

/// Waits until the last renewal has succeeded.
async fn renewed(shared: &SharedLease) {
    loop {
        let mut changed = pin!(shared.changed());
        changed.as_mut().enable();
        if shared.with(|lease| lease.failed() == 0) {
            return;
        }
        changed.await;
    }
}

/// Reads the ticket's state from the store.
async fn look(client: &Client, shared: &SharedLease) {
    if !shared.with(|lease| lease.is_renewed_manually()) {
        client.renewer.renew(shared).await;
        client.renewer.reschedule(shared);
        return;
    }
    // Only the owner renews, so the line is read. The push is not repeated, so the read is.
    let mut backoff = WATCH_AGAIN;
    let line = loop {
        match client.engine.line(&shared.key).await {
            Ok(line) => break line,
            Err(error) if error.is_retryable() => {
                client.runtime.sleep(backoff.next(client.runtime.random())).await;
            }
            // Without the line, the next change is found by the owner or by the clock.
            Err(_) => return shared.changed().await,
        }
    };
    let place = line.iter().find(|(ticket, _)| ticket.id == shared.id);
    if place.is_none_or(|(_, place)| place.leaving || place.state == TicketState::Waiting) {
        let now = client.runtime.now();
        shared.apply(now, now, Ok(None));
    }
}
