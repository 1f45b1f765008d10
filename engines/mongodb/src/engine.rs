//! The engine: each of the nine verbs is one command to the primary.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, pending, select};
use mongodb::bson::{RawDocumentBuf, rawdoc};
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket,
    TicketId, TicketState, WaitMode, Wake, Window, jitter,
};
use tokio::time::{sleep, timeout};

use crate::answer::{self, Outcome};
use crate::call::Update;
use crate::count;
use crate::extension::Joined;
use crate::feed::Hears;
use crate::line::record;
use crate::location::Location;
use crate::request::{Reads, Request, Verb};
use crate::store::MongoStore;
use crate::trouble;

/// Poll intervals of a waiting ticket without a change stream: first, at the front of the line, and
/// behind.
const POLL_FIRST: Duration = Duration::from_millis(20);
const POLL_NEAR: Duration = Duration::from_millis(250);
const POLL_FAR: Duration = Duration::from_secs(1);

impl MongoStore {
    fn known<T>(&self, answer: Option<T>) -> Result<T> {
        answer.ok_or_else(|| trouble::strange(&self.calls.name))
    }

    /// Forgets a ticket that has left its line.
    pub(crate) fn forget(&self, spot: &Location, id: TicketId) {
        self.roll.leave(&spot.record, id);
        self.mail.forget(id);
    }

    /// Returns the place of a key's line, which is a record.
    fn record(&self, key: &Key) -> Arc<Location> {
        Arc::new(Location::record(key, &self.records))
    }

    async fn ask(&self, spot: &Arc<Location>, ticket: &Ticket, verb: Verb) -> Result<Outcome> {
        self.lanes.ask(spot, Request::new(ticket.clone(), verb)).await
    }

    /// Returns the place of a ticket from the answer to a renewal or a look.
    fn seen(&self, came: &Outcome) -> Result<Option<Place>> {
        match came {
            Outcome::In(place) => Ok(Some(*place)),
            Outcome::Nowhere => Ok(None),
            _ => Err(trouble::strange(&self.calls.name)),
        }
    }

    /// Polls the line: up to every [`POLL_NEAR`] at the front, and every [`POLL_FAR`] behind.
    async fn poll(&self, spot: &Arc<Location>, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        let mut pause = POLL_FIRST;
        loop {
            sleep(jitter(pause, getrandom::u64().unwrap_or(0))).await;
            match self.peek(spot, ticket).await? {
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
    async fn wait(&self, spot: &Arc<Location>, ticket: &Ticket) -> Result<Wake> {
        let (_listening, mut hears) = (self.stream.listen(), self.stream.hears());
        loop {
            let now = *hears.borrow_and_update();
            if let Hears::Open(opening) = now
                && !self.catch_up(spot, ticket, opening).await?
            {
                return Ok(Wake::Look);
            }
            let polls = async {
                match now {
                    Hears::Refused => self.poll(spot, ticket, TicketState::Waiting).await.map(Some),
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
    async fn catch_up(&self, spot: &Arc<Location>, ticket: &Ticket, opening: u64) -> Result<bool> {
        if !self.roll.may_have_missed(&spot.record, ticket.id, opening) {
            return Ok(true);
        }
        let seen = self.peek(spot, ticket).await?;
        self.roll.hears(&spot.record, ticket.id, opening);
        match seen {
            Some(place) if place.leaving => return Ok(false),
            Some(place) => self.mail.learn(ticket.id, &place),
            None => self.forget(spot, ticket.id),
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
    async fn peek(&self, spot: &Arc<Location>, ticket: &Ticket) -> Result<Option<Place>> {
        self.seen(&self.ask(spot, ticket, Verb::Look).await?)
    }

    /// Joins the line at this place. If the ticket is served at once, it reads these fields of the
    /// document in the same step.
    #[doc(hidden)]
    pub async fn join_at(
        &self,
        spot: &Arc<Location>,
        ticket: &Ticket,
        patience: WaitMode,
        reads: Reads,
    ) -> Result<Joined> {
        let asking = self.mail.expect_answer(ticket.id, ticket.ttl);
        self.roll.prepare(&spot.record, ticket.id, self.stream.opening(), &self.mail);
        let hurry = patience == WaitMode::NoWait;
        let wish = Request { reads, ..Request::new(ticket.clone(), Verb::Join { hurry }) };
        let joined = match self.lanes.ask(spot, wish).await {
            // It was sent before, and the answer was lost: the ticket is in the line, so renew it.
            Ok(Outcome::Known) => match self.renew_at(spot, ticket).await {
                Ok(Some(place)) => Ok(Joined::In(place, None)),
                Ok(None) => Err(trouble::ended(&self.calls.name)),
                Err(error) => Err(error),
            },
            Ok(Outcome::In(place)) => Ok(Joined::In(place, None)),
            Ok(Outcome::Read(place, document)) => Ok(Joined::In(place, Some(document))),
            Ok(Outcome::Busy) => Ok(Joined::Busy),
            Ok(Outcome::Nowhere) => Ok(Joined::Nowhere),
            Ok(Outcome::Refused(error)) | Err(error) => Err(error),
            Ok(Outcome::Left(_)) => Err(trouble::strange(&self.calls.name)),
        };
        match &joined {
            Ok(Joined::In(place, _)) => {
                asking.let_in();
                self.mail.learn(ticket.id, place);
            }
            Err(error) if error.is_retryable() => {}
            _ => self.forget(spot, ticket.id),
        }
        joined
    }

    /// Renews the ticket in the line at this place.
    #[doc(hidden)]
    pub async fn renew_at(&self, spot: &Arc<Location>, ticket: &Ticket) -> Result<Option<Place>> {
        self.mail.expect(ticket.id, ticket.ttl);
        self.roll.enter(&spot.record, ticket.id, self.stream.opening(), &self.mail);
        let renewed = self.seen(&self.ask(spot, ticket, Verb::Renew).await?)?;
        match &renewed {
            Some(place) => self.mail.learn(ticket.id, place),
            None => self.forget(spot, ticket.id),
        }
        Ok(renewed)
    }

    /// Takes the ticket out of the line at this place, or asks it to leave.
    #[doc(hidden)]
    pub async fn leave_at(
        &self,
        spot: &Arc<Location>,
        ticket: &Ticket,
        how: LeaveMode,
    ) -> Result<LeaveOutcome> {
        let came = self.ask(spot, ticket, Verb::Leave { soon: how == LeaveMode::Graceful }).await?;
        let Outcome::Left(mut left) = came else { return Err(trouble::strange(&self.calls.name)) };
        if left == LeaveOutcome::Absent && self.roll.was_never_sent(&spot.record, ticket.id) {
            // It waited in this client and was never sent, so it cannot join later.
            left = LeaveOutcome::Waiting;
        }
        if left != LeaveOutcome::Requested {
            self.forget(spot, ticket.id);
        }
        Ok(left)
    }

    /// Waits for a change of the ticket in the line at this place.
    #[doc(hidden)]
    pub async fn watch_at(
        &self,
        spot: &Arc<Location>,
        ticket: &Ticket,
        seen: TicketState,
    ) -> Result<Wake> {
        if !self.mail.expects(ticket.id) {
            return Ok(self.mail.watch(ticket.id, seen).await);
        }
        let _glances = self.glances.at(spot, ticket.id, seen);
        match seen {
            TicketState::Holding => Ok(self.mail.watch(ticket.id, seen).await),
            TicketState::Waiting if self.facts.can_push() => {
                Box::pin(self.wait(spot, ticket)).await
            }
            TicketState::Waiting => self.told_or(ticket, self.poll(spot, ticket, seen)).await,
        }
    }

    /// Reads the line at this place.
    #[doc(hidden)]
    pub async fn line_at(&self, spot: &Location, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        match self.lanes.line(spot, key).await? {
            Some(answer) if answer.contains_key("of") => self.known(answer::line(&answer, key)),
            _ => Ok(Vec::new()),
        }
    }
}

impl Engine for MongoStore {
    fn guarantees(&self) -> Guarantees {
        self.profile.clone()
    }

    async fn join(&self, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
        let spot = self.record(&ticket.key);
        match self.join_at(&spot, ticket, patience, Reads::Nothing).await? {
            Joined::In(place, _) => Ok(Some(place)),
            Joined::Busy => Ok(None),
            Joined::Nowhere => Err(trouble::strange(&self.calls.name)),
        }
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.renew_at(&self.record(&ticket.key), ticket).await
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        self.leave_at(&self.record(&ticket.key), ticket, how).await
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        self.watch_at(&self.record(&ticket.key), ticket, seen).await
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        if self.facts.can_push() {
            return self.onlookers.events(scope, after).await;
        }
        self.sampler.events(self, &self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.line_at(&self.record(key), key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let names = self.calls.keys(prefix).await?;
        let mut keys = Vec::with_capacity(names.len());
        for name in names {
            keys.push(Key::new(name).map_err(|_| trouble::strange(&self.calls.name))?);
        }
        keys.sort_unstable();
        keys.dedup();
        Ok(keys)
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        let (kind, count) = match window {
            None => (":n", &self.sequence),
            Some(_) => (":c", &self.windowed),
        };
        let record = record(key) + kind;
        let update = Update {
            filter: &rawdoc! { "_id": record.as_str() },
            filling: None,
            first: count::ask(by, window),
            stages: [&count.stages, &[], &[]],
            fields: count.fields.clone(),
            // A read opens no window.
            makes: by > 0,
            expects: RawDocumentBuf::new(),
            sort: None,
        };
        let turn = timeout(self.calls.timeout, self.turns.wait(&record)).await;
        let _turn = turn.map_err(|_| trouble::late(&self.calls.name))?;
        let counted = self.calls.update(&update).await;
        let collection = &self.calls.collection;
        match counted.map_err(|error| trouble::in_record(error, collection, &record, key))? {
            Some(answer) => self.known(answer::tallied(&answer, key, by))?,
            None => Ok(CounterValue::new(0, true, window.map(|window| window.per))),
        }
    }

    async fn close(&self) {
        self.feed.stop();
        self.onlookers.stop();
        if self.is_own {
            self.calls.client.clone().shutdown().immediate(true).await;
        }
    }
}
