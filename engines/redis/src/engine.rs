//! The engine: each of the ten verbs is one script, sent to the server of the line.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::try_join_all;
use redis::{Cmd, FromRedisValue as _, Value};
use tenure_core::event::{Cursor, EventBatch, Scope};
use tenure_core::toolbox::incomplete;
use tenure_core::{
    Breaks, CounterValue, Engine, Error, Guarantees, Key, LeaveMode, LeaveOutcome, NUMBER_MAX,
    Place, Reason, Result, Ticket, TicketId, TicketState, WaitMode, Wake, Window, errors,
};
use tenure_kit::subscriptions::Subscriptions;

use crate::batch::BatchItem;
use crate::body;
use crate::letter;
use crate::reply;
use crate::route::{Deployment, Route};
use crate::script::{Script, Scripts, VerbTag};
use crate::settings::Settings;
use crate::store::RedisEngine;
use crate::task::spawn_and_join;
use crate::trouble;
use crate::verbs::{LeaveCall, TicketCall};

/// Count of keys in one step of a listing: the server does nothing else meanwhile.
const SCAN_STEP: u32 = 1000;
/// Maximum window of a count.
const WINDOW_MS_MAX: u64 = 1 << 52;

impl<D: Deployment> RedisEngine<D> {
    /// Returns the name of a line's head. Its part in braces determines the slot.
    fn name(&self, key: &Key) -> String {
        let prefix = &self.settings().prefix;
        [prefix, ":{", self.realm, &key.canonical(prefix), "}"].concat()
    }

    /// Returns the key of this line, from its first readable ticket.
    async fn look(&self, name: &str) -> Result<Head> {
        let route = self.deployment.here().await?;
        match route.call(&self.script(|scripts| &scripts.look).on(name)).await {
            Ok(Value::Nil) => Ok(Head::Empty),
            Ok(Value::BulkString(body)) => {
                Ok(body::decode(&body).map_or(Head::Unreadable, |body| Head::Of(body.key)))
            }
            Ok(_) => Err(self.deployment.strange()),
            Err(trouble) if trouble::is_about_what_is_kept(&trouble) => Ok(Head::Unreadable),
            Err(trouble) => self.deployment.answered(Err(trouble)),
        }
    }

    /// Returns the lines with tickets among some of one server's keys.
    async fn some_keys(&self, master: &D::Master, cursor: &str) -> Result<ScanStep> {
        let heads = format!("{}:{{{}v1.*}}", self.settings().prefix, self.realm);
        let script = self.script(|scripts| &scripts.keys);
        let mut call = script.on_none();
        call.arg(cursor).arg(heads).arg(SCAN_STEP);
        let answer = match self.deployment.ask(master, &call).await? {
            Err(trouble) if trouble::wants_scripts(&trouble) => {
                self.deployment.answered(self.deployment.ask(master, &script.load()).await?)?;
                self.deployment.ask(master, &call).await?
            }
            answer => answer,
        };
        let step = StepAnswer::from_redis_value(self.deployment.answered(answer)?);
        let step = step.map_err(|_| self.deployment.strange())?;
        let (next, seen, elsewhere, unreadable) = step;
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let mut unreadable: Vec<String> = unreadable.iter().map(|name| shown(name)).collect();
        let mut keys = Vec::new();
        for (name, body) in seen {
            match body::decode(&body) {
                Ok(body) => keys.push(body.key),
                Err(_) => unreadable.push(shown(&name)),
            }
        }
        let mut others = Vec::new();
        for name in elsewhere {
            match String::from_utf8(name) {
                Ok(name) => others.push(name),
                Err(error) => unreadable.push(shown(error.as_bytes())),
            }
        }
        let looks = try_join_all(others.iter().map(|name| self.look(name))).await?;
        for (name, head) in others.into_iter().zip(looks) {
            match head {
                Head::Of(key) => keys.push(key),
                Head::Unreadable => unreadable.push(name),
                Head::Empty => {}
            }
        }
        Ok(ScanStep { next, keys, unreadable })
    }

    /// The error for heads that do not show their keys.
    fn unreadable(&self, names: &BTreeSet<String>, first: &str) -> Error {
        let more = match names.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        Error::rejected(format!(
            "a lock whose key is not known may be held: this version of Tenure cannot read {first}{more} in {}; use the version that wrote it, or delete it when no client holds a lock",
            self.settings().whom()
        ))
    }

    fn of_name(&self, error: Error, name: &str, key: &Key) -> Error {
        of_name(self.settings(), error, name, key)
    }

    fn script(&self, which: fn(&Scripts) -> &Script) -> &Script {
        which(self.deployment.scripts())
    }
}

impl<D: Deployment> Engine for RedisEngine<D> {
    fn guarantees(&self) -> Guarantees {
        self.guarantees.clone()
    }

    async fn join(&self, ticket: &Ticket, mode: WaitMode) -> Result<Option<Place>> {
        let route = self.deployment.here().await?;
        route.trust(ticket)?;
        let name = self.name(&ticket.key);
        let route = route.keeping();
        let join = TicketCall::new(&name, ticket, &self.inbox);
        let asking = self.mail.expect_answer(ticket.id, ticket.ttl);
        let call = || join.join(self.deployment.scripts(), mode);
        let answer = self.deployment.answered(route.ask(join.item(VerbTag::Join), call).await);
        let answer = answer.map_err(|error| self.of_name(error, &name, &ticket.key));
        let joined = answer
            .and_then(|answer| self.deployment.known(join.joined(&answer, self.settings()))?);
        let place = match joined {
            Ok(Some(place)) => place,
            outcome => {
                if outcome.as_ref().err().is_none_or(|error| !error.is_retryable()) {
                    forget(&*self.deployment, &self.mail, ticket.id, &name);
                }
                return outcome;
            }
        };
        asking.let_in();
        self.mail.learn(ticket.id, &place);
        // If it is not, its owner retries, or the ticket leaves.
        route.acknowledged().await?;
        Ok(Some(place))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        let name = self.name(&ticket.key);
        let route = self.deployment.here().await?.keeping();
        let renewal = TicketCall::new(&name, ticket, &self.inbox);
        self.mail.expect(ticket.id, ticket.ttl);
        let call = || renewal.renewal(self.deployment.scripts());
        let item = renewal.item(VerbTag::Renew);
        let answer = ask_even_if_full(&*self.deployment, &route, item, call).await;
        let answer = answer.map_err(|error| self.of_name(error, &name, &ticket.key))?;
        if answer == Value::Nil {
            forget(&*self.deployment, &self.mail, ticket.id, &name);
            return Ok(None);
        }
        let place = self.deployment.known(renewal.renewed(&answer))?;
        self.mail.learn(ticket.id, &place);
        route.acknowledged().await?;
        Ok(Some(place))
    }

    async fn leave(&self, ticket: &Ticket, how: LeaveMode) -> Result<LeaveOutcome> {
        let (deployment, mail) = (self.deployment.clone(), self.mail.clone());
        let go =
            LeaveCall::new(self.name(&ticket.key), ticket, &self.inbox, how, mail.lives(ticket.id));
        let leaving = take_out(deployment, mail, ticket.id, ticket.key.clone(), go);
        if self.mail.is_quiet() {
            return leaving.await;
        }
        // The answer may say that another ticket of this client is served. The caller may stop
        // polling before it reads that.
        spawn_and_join(leaving).await.unwrap_or_else(|| Err(trouble::late(self.settings())))
    }

    async fn watch(&self, ticket: &Ticket, seen: TicketState) -> Result<Wake> {
        if self.mail.expects(ticket.id) {
            let hears = self.deployment.hear_of(|| self.name(&ticket.key), ticket.id);
            if self.deployment.answered(hears.await)? {
                // Missed pushes show in the answer. Later ones arrive from now on.
                self.renew(ticket).await?;
            }
        }
        Ok(self.mail.watch(ticket.id, seen).await)
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<EventBatch> {
        self.sampler.events_with_breaks(self, &self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let route = self.deployment.here().await?;
        let name = self.name(key);
        let call = self.script(|scripts| &scripts.list).on(&name);
        let answer = self.deployment.answered(route.call(&call).await);
        let answer = answer.map_err(|error| self.of_name(error, &name, key))?;
        let line = self.deployment.known(reply::line(&answer, key))?;
        line.map_err(|error| self.of_name(error, &name, key))
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let (mut keys, mut unreadable) = (BTreeSet::new(), BTreeSet::new());
        for master in self.deployment.answered(self.deployment.masters().await)? {
            let mut cursor = "0".to_owned();
            loop {
                let step = self.some_keys(&master, &cursor).await?;
                keys.extend(step.keys.into_iter().filter(|key| key.as_str().starts_with(prefix)));
                unreadable.extend(step.unreadable);
                if step.next == "0" {
                    break;
                }
                cursor = step.next;
            }
        }
        let keys = keys.into_iter().collect();
        match unreadable.first() {
            Some(first) => Err(incomplete(self.unreadable(&unreadable, first), keys)),
            None => Ok(keys),
        }
    }

    async fn add(&self, key: &Key, by: u64, window: Option<Window>) -> Result<CounterValue> {
        let name = self.name(key);
        let route = self.deployment.here().await?.keeping();
        let by_now = by.min(NUMBER_MAX + 1);
        let answer = match window {
            None => {
                let name = name + ":n";
                let mut call = self.script(|scripts| &scripts.sequence).on(&name);
                call.arg(by_now);
                // A repeated call skips numbers.
                let answer = self.deployment.answered(route.call(&call).await);
                let answer = answer.map_err(|error| self.of_name(error, &name, key))?;
                if by > 0 {
                    // If replicas do not have the number, it is skipped.
                    route.acknowledged().await?;
                }
                answer
            }
            Some(Window { per, limit }) => {
                let per = u64::try_from(per.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
                let name = name + ":c";
                let mut call = self.script(|scripts| &scripts.count).on(&name);
                call.arg(by_now).arg(per.clamp(1, WINDOW_MS_MAX));
                match limit {
                    Some(limit) => call.arg(limit.min(NUMBER_MAX)),
                    None => call.arg(-1),
                };
                let answer = self.deployment.answered(route.call(&call).await);
                answer.map_err(|error| of_count(self.settings(), error, &name, key))?
            }
        };
        let (verdict, count) = self.deployment.known(reply::counted(&answer))?;
        if verdict < 0 {
            return Err(errors::count_is_full(key, count.value, by));
        }
        Ok(count)
    }

    async fn swap(&self, key: &Key, seen: &str, value: &str) -> Result<String> {
        let name = self.name(key) + ":v";
        let route = self.deployment.here().await?.keeping();
        let mut call = self.script(|scripts| &scripts.swap).on(&name);
        call.arg(seen).arg(value);
        let answer = self.deployment.answered(route.call(&call).await);
        let answer = answer.map_err(|error| self.of_name(error, &name, key))?;
        let text = match answer {
            Value::BulkString(bytes) => String::from_utf8(bytes),
            _ => return Err(self.deployment.strange()),
        };
        let text = text.map_err(|_| self.of_name(errors::unreadable_value(), &name, key))?;
        if text == value && value != seen {
            route.acknowledged().await?;
        }
        Ok(text)
    }

    async fn close(&self) {}
}

/// Maximum tickets in one call.
const BROKEN_ASKED_MAX: usize = 500;

impl<D: Deployment> Breaks for RedisEngine<D> {
    async fn broken(&self, key: &Key, gone: &[TicketId]) -> Result<Vec<TicketId>> {
        let name = self.name(key);
        let route = self.deployment.here().await?;
        let mut broken = Vec::new();
        for some in gone.chunks(BROKEN_ASKED_MAX) {
            let mut call = self.script(|scripts| &scripts.broken).on(&name);
            for id in some {
                call.arg(&id.to_u128().to_be_bytes()[..]);
            }
            let answer = self.deployment.answered(route.call(&call).await);
            let answer = answer.map_err(|error| self.of_name(error, &name, key))?;
            let marks = self.deployment.known(reply::marks(&answer, some.len()))?;
            broken.extend(some.iter().zip(marks).filter(|(_, mark)| *mark).map(|(id, _)| *id));
        }
        Ok(broken)
    }
}

/// Removes a ticket, and wakes this client's tickets that are served now.
async fn take_out<D: Deployment>(
    deployment: Arc<D>,
    mail: Arc<Subscriptions>,
    id: TicketId,
    key: Key,
    go: LeaveCall,
) -> Result<LeaveOutcome> {
    let route = deployment.here().await?;
    let call = || go.call(deployment.scripts());
    let answer = ask_even_if_full(&*deployment, &route, go.item(), call).await;
    let answer = answer.map_err(|error| of_name(deployment.settings(), error, go.name(), &key))?;
    let (left, letters) = deployment.known(LeaveCall::read(&answer))?;
    for letter in letters {
        letter::deliver(&mail, letter);
    }
    if left != LeaveOutcome::Requested {
        forget(&*deployment, &mail, id, go.name());
    }
    Ok(left)
}

/// Sends a call that frees memory, also to a server whose memory is full.
async fn ask_even_if_full(
    deployment: &impl Deployment,
    route: &impl Route,
    item: Option<BatchItem<'_>>,
    call: impl Fn() -> Cmd + Send + Sync,
) -> Result<Value> {
    match route.ask(item, &call).await {
        Err(trouble) if trouble::is_full(&trouble) => {
            deployment.answered(route.call(call().arg("full")).await)
        }
        answer => deployment.answered(answer),
    }
}

/// Forgets a ticket that is out of its line.
fn forget(deployment: &impl Deployment, mail: &Subscriptions, id: TicketId, name: &str) {
    deployment.hear_no_more_of(name, id);
    mail.forget(id);
}

/// The next cursor; each line with the visible part of one of its tickets; the heads that another
/// server may be able to read; the unreadable heads.
/// Names are bytes: a stranger's need not be UTF-8.
type StepAnswer = (String, Vec<(Vec<u8>, Vec<u8>)>, Vec<Vec<u8>>, Vec<Vec<u8>>);

/// The key in the head of a line.
enum Head {
    Of(Key),
    Empty,
    Unreadable,
}

/// The result of one step through the keys of a server.
struct ScanStep {
    /// The cursor of the next one.
    next: String,
    keys: Vec<Key>,
    /// The names of heads that do not show their keys.
    unreadable: Vec<String>,
}

/// Adds the name and the server to an error about stored data.
fn of_name(settings: &Settings, error: Error, name: &str, key: &Key) -> Error {
    // Each of several servers reports about itself.
    let place = format!("under the name {name} by {}", settings.whom());
    if error.reason() == Some(Reason::ForeignData) {
        return error.with_key(key).with_more(format_args!(
            "; the key is {key:?}, whose names begin with {name}: or delete that data when no client holds the lock"
        ));
    }
    errors::with_place(error, key, &place)
}

/// The same for a count, which is independent of the counts before its window.
fn of_count(settings: &Settings, error: Error, name: &str, key: &Key) -> Error {
    if error.reason() != Some(Reason::UnreadableNumber) {
        return of_name(settings, error, name, key);
    }
    let whom = settings.whom();
    error.with_key(key).with_more(format_args!(
        "; the key is {key:?}, counted under the name {name} by {whom}: delete that name, and the count begins anew"
    ))
}
