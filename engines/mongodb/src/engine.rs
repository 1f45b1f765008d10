//! The engine: each of the nine verbs is one command to the primary.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use mongodb::bson::Document;
use tenure_core::event::{Cursor, News, Scope};
use tenure_core::{
    Engine, Key, Leave, Left, Patience, Place, Profile, Result, Standing, Tally, Ticket, Wake,
    Window, uneven,
};
use tokio::time::{sleep, timeout};

use crate::answer::{self, Came};
use crate::call::Update;
use crate::count;
use crate::line::record;
use crate::store::MongoStore;
use crate::trouble;
use crate::wish::{Verb, Wish};

/// The pauses between looks at a line, where nobody tells.
const POLL_FIRST: Duration = Duration::from_millis(20);
const POLL_NEAR: Duration = Duration::from_millis(250);
const POLL_FAR: Duration = Duration::from_secs(1);

impl MongoStore {
    fn known<T>(&self, answer: Option<T>) -> Result<T> {
        answer.ok_or_else(|| trouble::strange(&self.calls.name))
    }

    /// The ticket is out of its line, as far as this client is concerned.
    fn forget(&self, record: &str, ticket: &Ticket) {
        self.roll.leave(record, ticket.id);
        self.mail.forget(ticket.id);
    }

    async fn ask(&self, record: &str, ticket: &Ticket, verb: Verb) -> Result<Came> {
        self.lanes.ask(record, Wish { ticket: ticket.clone(), verb }).await
    }

    /// What the answer to a verb says that only asks where a ticket stands.
    fn seen(&self, came: &Came) -> Result<Option<Place>> {
        match came {
            Came::In(place) => Ok(Some(*place)),
            Came::Nowhere => Ok(None),
            _ => Err(trouble::strange(&self.calls.name)),
        }
    }

    /// Looks again and again, where nobody tells: often at the front of the line, seldom behind.
    async fn poll(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        let record = record(&ticket.key);
        let mut pause = POLL_FIRST;
        loop {
            sleep(uneven(pause, getrandom::u64().unwrap_or(0))).await;
            match self.peek(&record, ticket).await? {
                Some(place) if place.leaving => return Ok(Wake::Look),
                Some(place) if place.standing != seen => {
                    self.mail.learn(ticket.id, &place);
                    return Ok(Wake::Served(place.number));
                }
                Some(place) if place.look.is_some() => pause = (pause * 2).min(POLL_NEAR),
                Some(_) => pause = POLL_FAR,
                None => return Ok(Wake::Look),
            }
        }
    }

    /// Where the ticket stands. This is no sign of life.
    async fn peek(&self, record: &str, ticket: &Ticket) -> Result<Option<Place>> {
        self.seen(&self.ask(record, ticket, Verb::Look).await?)
    }
}

impl Engine for MongoStore {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        ticket.check()?;
        let record = record(&ticket.key);
        let asking = self.mail.expect_answer(ticket.id, ticket.ttl);
        self.roll.enter(&record, ticket.id, self.stream.is_open(), &self.mail);
        let hurry = patience == Patience::NoWait;
        let came = self.ask(&record, ticket, Verb::Join { hurry }).await;
        let joined = match came {
            // It was sent before, and the answer was lost: whoever stands there renews.
            Ok(Came::Known) => match self.renew(ticket).await {
                Ok(None) => Err(trouble::ended(&self.calls.name)),
                renewed => renewed,
            },
            Ok(Came::In(place)) => Ok(Some(place)),
            Ok(Came::Busy) => Ok(None),
            Ok(Came::Refused(error)) | Err(error) => Err(error),
            Ok(Came::Nowhere | Came::Left(_)) => Err(trouble::strange(&self.calls.name)),
        };
        match joined {
            Ok(Some(place)) => {
                asking.let_in();
                self.mail.learn(ticket.id, &place);
                Ok(Some(place))
            }
            outcome => {
                if outcome.as_ref().err().is_none_or(|error| !error.is_unknown()) {
                    self.forget(&record, ticket);
                }
                outcome
            }
        }
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        ticket.check()?;
        let record = record(&ticket.key);
        self.mail.expect(ticket.id, ticket.ttl);
        self.roll.enter(&record, ticket.id, self.stream.is_open(), &self.mail);
        let renewed = self.seen(&self.ask(&record, ticket, Verb::Renew).await?)?;
        match &renewed {
            Some(place) => self.mail.learn(ticket.id, place),
            None => self.forget(&record, ticket),
        }
        Ok(renewed)
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        let record = record(&ticket.key);
        let came = self.ask(&record, ticket, Verb::Leave { soon: how == Leave::Soon }).await?;
        let Came::Left(left) = came else { return Err(trouble::strange(&self.calls.name)) };
        if left != Left::Told {
            self.forget(&record, ticket);
        }
        Ok(left)
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        if !self.facts.can_push() && seen == Standing::Waiting {
            let told = pin!(self.mail.watch(ticket.id, seen));
            return match select(told, pin!(self.poll(ticket, seen))).await {
                Either::Left((wake, _)) => Ok(wake),
                Either::Right((wake, _)) => wake,
            };
        }
        if self.facts.can_push() && self.mail.expects(ticket.id) {
            self.stream.start();
            let told = pin!(self.mail.watch(ticket.id, seen));
            if let Either::Left((wake, _)) = select(told, pin!(self.stream.opened())).await {
                return Ok(wake);
            }
            let record = record(&ticket.key);
            if self.roll.begins_to_hear(&record, ticket.id) {
                // What was written before is seen by a look, which is no sign of life.
                match self.peek(&record, ticket).await? {
                    Some(place) if place.leaving => return Ok(Wake::Look),
                    Some(place) => self.mail.learn(ticket.id, &place),
                    None => self.forget(&record, ticket),
                }
            }
        }
        Ok(self.mail.watch(ticket.id, seen).await)
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        if self.facts.can_push() {
            return self.onlookers.events(scope, after).await;
        }
        self.sampler.events(self, &self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let answer = self.lanes.line(&record(key)).await?;
        match answer {
            Some(answer) if answer.contains_key("of") => self.known(answer::line(&answer, key)),
            _ => Ok(Vec::new()),
        }
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

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        let (kind, count) = match window {
            None => (":n", &self.sequence),
            Some(_) => (":c", &self.windowed),
        };
        let update = Update {
            id: &(record(key) + kind),
            first: count::ask(by, window),
            stages: &count.stages,
            fields: count.fields.clone(),
            // A look opens no window.
            makes: by > 0,
            expects: Document::new(),
        };
        let turn = timeout(self.calls.timeout, self.turns.wait(update.id)).await;
        let _turn = turn.map_err(|_| trouble::late(&self.calls.name))?;
        match self.calls.update(&update).await? {
            Some(answer) => self.known(answer::tallied(&answer, key, by))?,
            None => {
                Ok(Tally { value: 0, allowed: true, resets_in: window.map(|window| window.per) })
            }
        }
    }

    async fn close(&self) {
        self.stream.stop();
        self.onlookers.stop();
        if self.is_own {
            self.calls.client.clone().shutdown().immediate(true).await;
        }
    }
}
