//! Listens for one ticket: to the bell where the store rings, and to the keeper in any case.

use std::pin::pin;

use futures_util::future::{Either, select};

use crate::belief::kept::Kept;
use crate::primitives::locks::Inner;
use crate::{Engine as _, Standing, Ticket, Wake};

pub(crate) struct Listener<'a> {
    inner: &'a Inner,
    kept: &'a Kept,
}

/// What to do until there is news. A push is a hint and the heartbeat the truth: whatever goes
/// wrong with the bell, the keeper's news ends the wait.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Wait for the bell.
    Listen,
    /// The bell rang: look at the ticket.
    Look,
    /// The store is in trouble: leave it alone until the next heartbeat.
    Rest,
}

impl<'a> Listener<'a> {
    pub(crate) fn new(inner: &'a Inner, kept: &'a Kept) -> Self {
        Self { inner, kept }
    }

    /// Asks `done` whenever something may have changed, until it has an answer.
    pub(crate) async fn until<T>(&self, seen: Standing, mut done: impl FnMut() -> Option<T>) -> T {
        let ticket = self.kept.ticket();
        let mut next = Next::Listen;
        loop {
            let mut news = pin!(self.kept.news());
            news.as_mut().enable();
            if let Some(answer) = done() {
                return answer;
            }
            if self.kept.with(|hold| hold.is_over()) {
                // There is nothing left to ask the store for, and nothing more will ever be news.
                next = Next::Rest;
            }
            next = match select(news, pin!(self.step(next, &ticket, seen))).await {
                Either::Left(_) => Next::Listen,
                Either::Right((next, _)) => next,
            };
        }
    }

    async fn step(&self, next: Next, ticket: &Ticket, seen: Standing) -> Next {
        match next {
            Next::Rest => std::future::pending().await,
            Next::Look => self.look().await,
            Next::Listen => match self.inner.engine.watch(ticket, seen).await {
                Ok(Wake::Served(number)) if seen == Standing::Waiting => {
                    let now = self.inner.host.now();
                    self.kept.with(|hold| hold.hear_served(now, number));
                    Next::Look
                }
                Ok(_) => Next::Look,
                Err(_) => Next::Rest,
            },
        }
    }

    async fn look(&self) -> Next {
        if self.kept.with(|hold| hold.is_kept_by_hand()) {
            return self.look_without_renewing().await;
        }
        self.inner.keeper.renew(self.kept).await;
        self.inner.keeper.reschedule(self.kept);
        if self.kept.with(|hold| hold.failed() == 0) { Next::Listen } else { Next::Rest }
    }

    /// What its owner renews by hand must not be renewed by a look.
    async fn look_without_renewing(&self) -> Next {
        let Ok(line) = self.inner.engine.line(&self.kept.key).await else { return Next::Rest };
        let place = line.iter().find(|(ticket, _)| ticket.id == self.kept.id);
        if place.is_none_or(|(_, place)| place.leaving) {
            let now = self.inner.host.now();
            self.kept.hear(now, now, Ok(None));
        }
        Next::Listen
    }
}
