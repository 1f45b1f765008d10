//! The engine: each of the nine verbs is one command to the primary.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use mongodb::bson::{Document, RawDocumentBuf, rawdoc};
use tenure_core::event::{Cursor, News, Scope};
use tenure_core::{
    Engine, Key, Leave, Left, NUMBER_MAX, Patience, Place, Profile, Result, Standing, Tally,
    Ticket, Wake, Window,
};

use tokio::time::sleep;

use crate::answer::{self, Stands};
use crate::call::{Update, Urgency};
use crate::count::{self, millis};
use crate::letter;
use crate::store::MongoStore;
use crate::stream::uneven;
use crate::trouble;

/// The pauses between looks at a line, where nobody tells.
const POLL_FIRST: Duration = Duration::from_millis(20);
const POLL_NEAR: Duration = Duration::from_millis(250);
const POLL_FAR: Duration = Duration::from_secs(1);

impl MongoStore {
    fn known<T>(&self, answer: Option<T>) -> Result<T> {
        answer.ok_or_else(|| trouble::strange(&self.calls.name))
    }

    /// Where a ticket stands, by the answer of its record, if there is one.
    fn seen(&self, answer: Option<&Document>) -> Result<Option<Place>> {
        let Some(answer) = answer else { return Ok(None) };
        match self.known(answer::seen(answer))? {
            Stands::In(place) => Ok(Some(place)),
            Stands::Nowhere => Ok(None),
        }
    }

    /// The ticket is out of its line, as far as this client is concerned.
    fn forget(&self, record: &str, ticket: &Ticket) {
        self.roll.leave(record, ticket.id);
        self.mail.forget(ticket.id);
    }

    async fn place(
        &self,
        record: &str,
        ticket: &Ticket,
        patience: Option<Patience>,
    ) -> Result<Option<Document>> {
        let hurry = patience == Some(Patience::NoWait);
        let stages = if patience.is_some() { &self.steps.join } else { &self.steps.renew };
        let update = Update {
            id: record,
            first: asks(ticket, &self.inbox, hurry),
            stages,
            fields: self.answers.place_of(ticket),
            makes: patience.is_some(),
            expects: Document::new(),
            urgency: Urgency::Turn,
        };
        self.calls.update(&update).await
    }

    /// The same in short, for a ticket that may be alone; `None` if it is not.
    async fn place_alone(
        &self,
        record: &str,
        ticket: &Ticket,
        joins: bool,
    ) -> Result<Option<Place>> {
        let is_likely = if joins {
            !self.roll.has_others(record, ticket.id)
        } else {
            self.roll.may_be_alone(record, ticket.id)
        };
        if ticket.floor > 0 || !is_likely {
            return Ok(None);
        }
        let id = ticket.id.to_string();
        let (expects, stages) = if joins {
            self.alone.join()
        } else {
            self.alone.renew(&id, ticket.share.take().into())
        };
        let update = Update {
            id: record,
            first: asks(ticket, &self.inbox, false),
            stages,
            fields: answer::fields_of_alone(),
            makes: joins,
            expects,
            urgency: Urgency::Turn,
        };
        let answer = self.calls.update(&update).await?;
        answer.map_or(Ok(None), |answer| self.known(answer::alone(&answer)).map(Some))
    }

    /// Looks again and again, where nobody tells: often at the front of the line, seldom behind.
    async fn poll(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        let record = record(&ticket.key);
        let mut pause = POLL_FIRST;
        loop {
            sleep(uneven(pause)).await;
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
        let fields = self.answers.place_of(ticket);
        let answer = self.calls.look(record, &self.steps.look, fields, self.facts.topology).await?;
        self.seen(answer.as_ref())
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
        let alone = self.place_alone(&record, ticket, true).await;
        if let Ok(Some(place)) = alone {
            asking.let_in();
            self.roll.came_alone(&record, ticket.id);
            self.mail.learn(ticket.id, &place);
            return Ok(Some(place));
        }
        let answer = match alone {
            Ok(_) => self.place(&record, ticket, Some(patience)).await,
            Err(error) => Err(error),
        };
        let joined = answer.and_then(|answer| {
            self.known(answer.and_then(|answer| answer::joined(&answer, ticket)))?
        });
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
        if let Some(place) = self.place_alone(&record, ticket, false).await? {
            self.mail.learn(ticket.id, &place);
            return Ok(Some(place));
        }
        let answer = self.place(&record, ticket, None).await?;
        let renewed = self.seen(answer.as_ref())?;
        match &renewed {
            Some(place) => self.mail.learn(ticket.id, place),
            None => self.forget(&record, ticket),
        }
        Ok(renewed)
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        let record = record(&ticket.key);
        let ask = rawdoc! {
            "id": ticket.id.to_string(), "inbox": self.inbox.as_str(), "soon": how == Leave::Soon,
        };
        let leave = |expects, stages| Update {
            id: &record,
            first: first(ask.clone()),
            stages,
            fields: self.answers.left.clone(),
            makes: false,
            expects,
            urgency: Urgency::AtOnce,
        };
        let mut answer = None;
        if how == Leave::Now && self.roll.may_be_alone(&record, ticket.id) {
            let (expects, stages) = self.alone.leave(&ticket.id.to_string(), &self.inbox);
            answer = self.calls.update(&leave(expects, stages)).await?;
        }
        if answer.is_none() {
            answer = self.calls.update(&leave(Document::new(), &self.steps.leave)).await?;
        }
        let left = match &answer {
            None => Left::Absent,
            Some(answer) => {
                let (left, bell) = self.known(answer::left(answer))?;
                letter::deliver(&self.mail, &self.inbox, bell);
                left
            }
        };
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
        self.sampler.events(self, &self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let record = record(key);
        let fields = rawdoc! { "_id": 0, "held": 1, "waiting": 1, "at": 1, "of": 1 };
        let answer =
            self.calls.look(&record, &self.steps.look, fields, self.facts.topology).await?;
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
            urgency: Urgency::Turn,
        };
        match self.calls.update(&update).await? {
            Some(answer) => self.known(answer::tallied(&answer, key, by))?,
            None => {
                Ok(Tally { value: 0, allowed: true, resets_in: window.map(|window| window.per) })
            }
        }
    }

    async fn close(&self) {
        self.stream.stop();
        if self.is_own {
            self.calls.client.clone().shutdown().immediate(true).await;
        }
    }
}

/// The id of a line's record.
fn record(key: &Key) -> String {
    key.canonical("tenure")
}

/// What the owner of a ticket asks for.
fn asks(ticket: &Ticket, inbox: &str, hurry: bool) -> RawDocumentBuf {
    let number = |number: u64| i64::try_from(number.min(NUMBER_MAX + 1)).unwrap_or(i64::MAX);
    let ttl_us = u64::try_from(ticket.ttl.as_micros()).unwrap_or(NUMBER_MAX);
    first(rawdoc! {
        "id": ticket.id.to_string(),
        "key": ticket.key.as_str(),
        "take": i64::from(ticket.share.take()),
        "of": i64::from(ticket.share.of()),
        "ttl": millis(ticket.ttl),
        "ttl_us": number(ttl_us.min(NUMBER_MAX)),
        "inbox": inbox,
        "owner": &*ticket.owner,
        "note": &*ticket.note,
        "floor": number(ticket.floor),
        "hurry": hurry,
    })
}

/// The first stage of a verb.
fn first(ask: RawDocumentBuf) -> RawDocumentBuf {
    rawdoc! { "$set": { "ask": { "$literal": ask } } }
}
