//! Watching: how a ticket waits for its turn, and learns that it has to leave.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, pending, select};
use tenure_core::{Place, Result, Ticket, TicketState, Wake, jitter};
use tokio::time::sleep;

use crate::feed::Hears;
use crate::location::Location;
use crate::request::Verb;
use crate::store::MongoStore;

/// Poll intervals of a waiting ticket without a change stream: first, at the front of the line, and
/// behind.
const POLL_FIRST: Duration = Duration::from_millis(20);
const POLL_NEAR: Duration = Duration::from_millis(250);
const POLL_FAR: Duration = Duration::from_secs(1);

impl MongoStore {
    /// Waits for a change of the ticket in the line at this place.
    #[doc(hidden)]
    pub async fn watch_at(
        &self,
        at: &Arc<Location>,
        ticket: &Ticket,
        seen: TicketState,
    ) -> Result<Wake> {
        if !self.mail.expects(ticket.id) {
            return Ok(self.mail.watch(ticket.id, seen).await);
        }
        let _glances = self.glances.at(at, ticket.id, seen);
        match seen {
            TicketState::Holding => Ok(self.mail.watch(ticket.id, seen).await),
            TicketState::Waiting if self.facts.can_push() => Box::pin(self.wait(at, ticket)).await,
            TicketState::Waiting => self.told_or(ticket, self.poll(at, ticket, seen)).await,
        }
    }

    /// Polls the line: up to every [`POLL_NEAR`] at the front, and every [`POLL_FAR`] behind.
    async fn poll(&self, at: &Arc<Location>, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let mut pause = POLL_FIRST;
        loop {
            sleep(jitter(pause, getrandom::u64().unwrap_or(0))).await;
            match self.peek(at, ticket).await? {
                Some(place) if place.leaving => return Ok(Wake::Look),
                Some(place) if place.state != seen => {
                    self.mail.learn(ticket.id, &place);
                    return Ok(Wake::Served(place.number));
                }
                Some(place) if place.look.is_some() => pause = (pause * 2).min(POLL_NEAR),
                Some(_) => pause = POLL_FAR,
                None => return Ok(Wake::Look),
            }
        }
    }

    /// Waits for a letter by the change stream. Polls if the server refuses the stream.
    async fn wait(&self, at: &Arc<Location>, ticket: &Ticket) -> Result<Wake> {
        let (_listening, mut hears) = (self.stream.listen(), self.stream.hears());
        loop {
            let now = *hears.borrow_and_update();
            if let Hears::Open(opening) = now
                && !self.catch_up(at, ticket, opening).await?
            {
                return Ok(Wake::Look);
            }
            let polls = async {
                match now {
                    Hears::Refused => self.poll(at, ticket, TicketState::Waiting).await.map(Some),
                    Hears::Closed | Hears::Open(_) => pending().await,
                }
            };
            let changes = async {
                match hears.changed().await {
                    Ok(()) => Ok(None),
                    // It cannot be closed: the sender is in the stream.
                    Err(_) => pending().await,
                }
            };
            let other = async { select(pin!(polls), pin!(changes)).await.factor_first().0 };
            if let Some(wake) = self.told_or(ticket, other).await? {
                return Ok(wake);
            }
        }
    }

    /// Reads the place of a ticket that may have missed letters before the stream was opened. This
    /// renews nothing. If the read fails or is dropped, the next call reads. Returns whether the
    /// ticket is to stay.
    async fn catch_up(&self, at: &Arc<Location>, ticket: &Ticket, opening: u64) -> Result<bool> {
        if !self.tickets.may_have_missed(&at.record, ticket.id, opening) {
            return Ok(true);
        }
        let seen = self.peek(at, ticket).await?;
        self.tickets.hears(&at.record, ticket.id, opening);
        match seen {
            Some(place) if place.leaving => return Ok(false),
            Some(place) => self.mail.learn(ticket.id, &place),
            None => self.forget(at, ticket.id),
        }
        Ok(true)
    }

    /// Waits for a letter to a waiting ticket, or for the other future.
    async fn told_or<T: From<Wake>>(
        &self,
        ticket: &Ticket,
        other: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let told = pin!(self.mail.watch(ticket.id, TicketState::Waiting));
        match select(told, pin!(other)).await {
            Either::Left((wake, _)) => Ok(wake.into()),
            Either::Right((other, _)) => other,
        }
    }

    /// Reads the place of a ticket. This renews nothing.
    async fn peek(&self, at: &Arc<Location>, ticket: &Ticket) -> Result<Option<Place>> {
        self.seen(&self.ask(at, ticket, Verb::Look).await?)
    }
}
