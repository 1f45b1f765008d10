//! Waits for a change of one ticket: for the store's push, and for the renewer.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::api::locks::Inner;
use crate::background::backoff::backoff;
use crate::lease::shared::SharedLease;
use crate::{Engine as _, Ticket, TicketState, Wake};

/// First pause before `watch` is called again after a failure. A change may have happened
/// meanwhile.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);

pub(crate) struct Listener<'a> {
    inner: &'a Inner,
    kept: &'a SharedLease,
}

/// The next step of the wait. A push is a hint and the renewal is the truth: if `watch` fails, the
/// next renewal ends the wait.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Call `watch`. It failed this many times since the last change.
    Listen(u32),
    /// `watch` failed, this many times.
    Pause(u32),
    /// `watch` returned: read the ticket's state.
    Look,
    /// The store fails: send nothing until the next renewal.
    Rest,
}

impl<'a> Listener<'a> {
    pub(crate) fn new(inner: &'a Inner, kept: &'a SharedLease) -> Self {
        Self { inner, kept }
    }

    /// Calls `done` after each possible change, until it returns an answer.
    pub(crate) async fn until<T>(
        &self,
        seen: TicketState,
        mut done: impl FnMut() -> Option<T>,
    ) -> T {
        let ticket = self.kept.ticket();
        let mut next = Next::Listen(0);
        loop {
            let mut news = pin!(self.kept.news());
            news.as_mut().enable();
            if let Some(answer) = done() {
                return answer;
            }
            if self.kept.with(|hold| hold.is_over()) {
                // The lease is over, so the store is not asked again.
                next = Next::Rest;
            }
            next = match select(news, pin!(self.step(next, &ticket, seen))).await {
                Either::Left(_) => Next::Listen(0),
                Either::Right((next, _)) => next,
            };
        }
    }

    async fn step(&self, next: Next, ticket: &Ticket, seen: TicketState) -> Next {
        match next {
            Next::Rest => std::future::pending().await,
            Next::Look => self.look().await,
            Next::Pause(broken) => {
                self.pause(broken).await;
                Next::Listen(broken)
            }
            Next::Listen(broken) => match self.inner.engine.watch(ticket, seen).await {
                Ok(Wake::Served(number)) if seen == TicketState::Waiting => {
                    let now = self.inner.host.now();
                    self.kept.with(|hold| hold.hear_served(now, number));
                    Next::Look
                }
                Ok(_) => Next::Look,
                // The last renewal succeeded, so only this request failed: try again. While
                // renewals fail, they alone find out when the store is back.
                Err(error) if error.is_retryable() && self.kept.with(|hold| hold.failed() == 0) => {
                    Next::Pause(broken + 1)
                }
                Err(_) => Next::Rest,
            },
        }
    }

    async fn pause(&self, broken: u32) {
        let host = &self.inner.host;
        host.sleep(backoff(PAUSE_FIRST, PAUSE_MAX, broken, host.random())).await;
    }

    async fn look(&self) -> Next {
        if self.kept.with(|hold| hold.is_kept_by_hand()) {
            return self.look_without_renewing().await;
        }
        self.inner.keeper.renew(self.kept).await;
        self.inner.keeper.reschedule(self.kept);
        if self.kept.with(|hold| hold.failed() == 0) { Next::Listen(0) } else { Next::Rest }
    }

    /// Reads the state without a renewal, because only the owner renews.
    async fn look_without_renewing(&self) -> Next {
        let mut broken = 0;
        let line = loop {
            match self.inner.engine.line(&self.kept.key).await {
                Ok(line) => break line,
                // The notification is not repeated, so the read must succeed.
                Err(error) if error.is_retryable() => self.pause(broken).await,
                Err(_) => return Next::Rest,
            }
            broken += 1;
        };
        let place = line.iter().find(|(ticket, _)| ticket.id == self.kept.id);
        if place.is_none_or(|(_, place)| place.leaving) {
            let now = self.inner.host.now();
            self.kept.hear(now, now, Ok(None));
        }
        Next::Listen(0)
    }
}
