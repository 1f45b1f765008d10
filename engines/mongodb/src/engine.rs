//! The engine: each of the ten verbs is one command to the primary.

use std::sync::Arc;

use mongodb::bson::rawdoc;
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::{
    CounterValue, Engine, Guarantees, Key, LeaveMode, LeaveOutcome, Place, Result, Ticket,
    TicketId, TicketState, WaitMode, Wake, Window, errors,
};
use tokio::time::timeout;

use crate::answer::{self, VerbOutcome};
use crate::command::RecordUpdate;
use crate::counter;
use crate::extension::JoinOutcome;
use crate::line::record;
use crate::location::Location;
use crate::request::{Reads, TicketRequest, Verb};
use crate::store::MongoStore;
use crate::trouble;
use crate::value;

impl MongoStore {
    fn known<T>(&self, answer: Option<T>) -> Result<T> {
        answer.ok_or_else(|| trouble::strange(&self.commands.servers))
    }

    /// Forgets a ticket that has left its line.
    pub(crate) fn forget(&self, at: &Location, id: TicketId) {
        self.tickets.leave(&at.record, id);
        self.mail.forget(id);
    }

    /// Returns the place of a key's line, which is a record.
    fn record(&self, key: &Key) -> Arc<Location> {
        Arc::new(Location::record(key, &self.records))
    }

    pub(crate) async fn ask(
        &self,
        at: &Arc<Location>,
        ticket: &Ticket,
        verb: Verb,
    ) -> Result<VerbOutcome> {
        self.batcher.ask(at, TicketRequest::new(ticket.clone(), verb)).await
    }

    /// Returns the place of a ticket from the answer to a renewal or a look.
    pub(crate) fn seen(&self, outcome: &VerbOutcome) -> Result<Option<Place>> {
        match outcome {
            VerbOutcome::In(place) => Ok(Some(*place)),
            VerbOutcome::Nowhere => Ok(None),
            _ => Err(trouble::strange(&self.commands.servers)),
        }
    }

    /// Joins the line at this place. If the ticket is served at once, it reads these fields of the
    /// document in the same step.
    #[doc(hidden)]
    pub async fn join_at(
        &self,
        at: &Arc<Location>,
        ticket: &Ticket,
        patience: WaitMode,
        reads: Reads,
    ) -> Result<JoinOutcome> {
        let asking = self.mail.expect_answer(ticket.id, ticket.ttl);
        self.tickets.prepare(&at.record, ticket.id, self.stream.opening(), &self.mail);
        let hurry = patience == WaitMode::NoWait;
        let request =
            TicketRequest { reads, ..TicketRequest::new(ticket.clone(), Verb::Join { hurry }) };
        let joined = match self.batcher.ask(at, request).await {
            // It was sent before, and the answer was lost: the ticket is in the line, so renew it.
            Ok(VerbOutcome::Known) => match self.renew_at(at, ticket).await {
                Ok(Some(place)) => Ok(JoinOutcome::In(place, None)),
                Ok(None) => Err(trouble::ended(&self.commands.servers)),
                Err(error) => Err(error),
            },
            Ok(VerbOutcome::In(place)) => Ok(JoinOutcome::In(place, None)),
            Ok(VerbOutcome::Read(place, document)) => Ok(JoinOutcome::In(place, Some(document))),
            Ok(VerbOutcome::Busy) => Ok(JoinOutcome::Busy),
            Ok(VerbOutcome::Nowhere) => Ok(JoinOutcome::Nowhere),
            Ok(VerbOutcome::Refused(error)) | Err(error) => Err(error),
            Ok(VerbOutcome::Left(_) | VerbOutcome::Fresh) => {
                Err(trouble::strange(&self.commands.servers))
            }
        };
        match &joined {
            Ok(JoinOutcome::In(place, _)) => {
                asking.let_in();
                self.mail.learn(ticket.id, place);
            }
            Err(error) if error.is_retryable() => {}
            _ => self.forget(at, ticket.id),
        }
        joined
    }

    /// Renews the ticket in the line at this place.
    #[doc(hidden)]
    pub async fn renew_at(&self, at: &Arc<Location>, ticket: &Ticket) -> Result<Option<Place>> {
        self.mail.expect(ticket.id, ticket.ttl);
        self.tickets.enter(&at.record, ticket.id, self.stream.opening(), &self.mail);
        let renewed = self.seen(&self.ask(at, ticket, Verb::Renew).await?)?;
        match &renewed {
            Some(place) => self.mail.learn(ticket.id, place),
            None => self.forget(at, ticket.id),
        }
        Ok(renewed)
    }

    /// Takes the ticket out of the line at this place, or asks it to leave.
    #[doc(hidden)]
    pub async fn leave_at(
        &self,
        at: &Arc<Location>,
        ticket: &Ticket,
        how: LeaveMode,
    ) -> Result<LeaveOutcome> {
        let outcome =
            self.ask(at, ticket, Verb::Leave { soon: how == LeaveMode::Graceful }).await?;
        let VerbOutcome::Left(mut left) = outcome else {
            return Err(trouble::strange(&self.commands.servers));
        };
        if left == LeaveOutcome::Absent && self.tickets.was_never_sent(&at.record, ticket.id) {
            // It waited in this client and was never sent, so it cannot join later.
            left = LeaveOutcome::Waiting;
        }
        if left != LeaveOutcome::Requested {
            self.forget(at, ticket.id);
        }
        Ok(left)
    }

    /// Reads the line at this place.
    #[doc(hidden)]
    pub async fn line_at(&self, at: &Location, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        match self.batcher.line(at, key).await? {
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
        let at = self.record(&ticket.key);
        match self.join_at(&at, ticket, patience, Reads::Nothing).await? {
            JoinOutcome::In(place, _) => Ok(Some(place)),
            JoinOutcome::Busy => Ok(None),
            JoinOutcome::Nowhere => Err(trouble::strange(&self.commands.servers)),
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
            return self.followed.events(scope, after).await;
        }
        self.sampler.events(self, &self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        self.line_at(&self.record(key), key).await
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let names = self.commands.keys(prefix).await?;
        let mut keys = Vec::with_capacity(names.len());
        for name in names {
            keys.push(Key::new(name).map_err(|_| trouble::strange(&self.commands.servers))?);
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
        let filter = rawdoc! { "_id": record.as_str() };
        let first = counter::ask(by, window);
        let update = RecordUpdate {
            // A read opens no window.
            makes: by > 0,
            ..RecordUpdate::new(&filter, first, vec![&count.stages], count.fields.clone())
        };
        let turn = timeout(self.commands.timeout, self.batcher.turns().wait(&record)).await;
        let _turn = turn.map_err(|_| trouble::late(&self.commands.servers))?;
        let counted = self.commands.update(&update).await;
        let collection = &self.commands.collection;
        match counted.map_err(|error| trouble::in_record(error, collection, &record, key))? {
            Some(answer) => self.known(answer::counted(&answer, key, by))?,
            None => Ok(CounterValue::new(0, true, window.map(|window| window.per))),
        }
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        let record = record(key) + ":v";
        let filter = rawdoc! { "_id": record.as_str() };
        let (first, stages) = (value::ask(seen, value), value::stages());
        let update = RecordUpdate {
            makes: seen.is_empty() && !value.is_empty(),
            ..RecordUpdate::new(&filter, first, vec![&stages], value::fields())
        };
        let Some(answer) = self.commands.update(&update).await? else { return Ok(String::new()) };
        let Ok(text) = answer.get_str("value") else {
            let (error, collection) = (errors::unreadable_value(), &self.commands.collection);
            return Err(trouble::in_record(error, collection, &record, key));
        };
        Ok(text.to_owned())
    }

    async fn close(&self) {
        self.feed.stop();
        self.followed.stop();
        if self.is_own {
            self.commands.client.clone().shutdown().immediate(true).await;
        }
    }
}
