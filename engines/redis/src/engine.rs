//! The engine: each of the nine verbs is one script, sent to whoever keeps the line.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use redis::{Cmd, FromRedisValue as _, RedisResult, Value};
use tenure_core::event::{Cursor, News, Scope};
use tenure_core::{
    Engine, Error, Key, Leave, Left, NUMBER_MAX, Patience, Place, Profile, Result, Standing, Tally,
    Ticket, Wake, Window, refusal,
};

use tenure_kit::secret::without;

use crate::body;
use crate::bundle::Wish;
use crate::letter;
use crate::reply;
use crate::route::{Deployment, Route};
use crate::script::{Script, Scripts};
use crate::store::Store;
use crate::trouble;
use crate::verbs::{Go, Join, Joined, Renew, Renewed};

/// How many keys one step of a listing goes through: the server does nothing else meanwhile.
const SCAN_STEP: u32 = 1000;
/// What a call costs a server beyond what it measures itself, and a ticket that it shows: more than that, rather.
const CALL_COST: Duration = Duration::from_micros(50);
const TICKET_COST: Duration = Duration::from_micros(2);
/// The longest window of a count.
const WINDOW_MS_MAX: u64 = 1 << 52;

impl<D: Deployment> Store<D> {
    /// The name of a line's head, whose part in braces chooses the slot.
    fn name(&self, key: &Key) -> String {
        let prefix = &self.settings().prefix;
        [prefix, ":{", self.realm, &key.canonical(prefix), "}"].concat()
    }

    /// Whether a server's memory is full does not matter to those who make it less so.
    async fn ask_even_if_full(
        &self,
        route: &impl Route,
        wish: Option<Wish<'_>>,
        call: impl Fn() -> Cmd + Send + Sync,
    ) -> Result<Value> {
        match route.ask(wish, &call).await {
            Err(trouble) if trouble::is_full(&trouble) => {
                self.answered(route.call(call().arg("full")).await)
            }
            answer => self.answered(answer),
        }
    }

    fn answered<T>(&self, answer: RedisResult<T>) -> Result<T> {
        if answer.as_ref().is_err_and(trouble::is_strange) {
            self.deployment.distrust();
        }
        trouble::answered(self.settings(), answer)
    }

    fn known<T>(&self, answer: Option<T>) -> Result<T> {
        answer.ok_or_else(|| self.strange())
    }

    /// An answer that no script of Tenure's gives. What it was the answer to is not known, nor what became of what was asked.
    fn strange(&self) -> Error {
        self.deployment.distrust();
        trouble::strange(&self.settings().name)
    }

    /// The ticket is out of its line, as far as this client is concerned.
    fn forget(&self, ticket: &Ticket, name: &str) {
        self.deployment.hear_no_more_of(name, ticket.id);
        self.mail.forget(ticket.id);
    }

    /// What stands in this line may be seen by its first one, if there is anybody.
    async fn look(&self, name: &str) -> Result<Option<Key>> {
        let route = self.deployment.here().await?;
        let seen =
            self.answered(route.call(&self.script(|scripts| &scripts.look).on(name)).await)?;
        match seen {
            Value::Nil => Ok(None),
            Value::BulkString(body) => Ok(Some(body::decode(&body)?.key)),
            _ => Err(self.strange()),
        }
    }

    /// The lines among some of one server's keys in which somebody stands.
    async fn some_keys(&self, master: &D::Master, cursor: &str) -> Result<Step> {
        let heads = format!("{}:{{{}v1.*}}", self.settings().prefix, self.realm);
        let script = self.script(|scripts| &scripts.keys);
        let mut call = script.on_none();
        call.arg(cursor).arg(heads).arg(SCAN_STEP);
        let mut asked = Instant::now();
        let answer = match self.deployment.ask(master, &call).await? {
            Err(trouble) if trouble::wants_scripts(&trouble) => {
                self.answered(self.deployment.ask(master, &script.load()).await?)?;
                asked = Instant::now();
                self.deployment.ask(master, &call).await?
            }
            answer => answer,
        };
        let step = StepAnswer::from_redis_value(self.answered(answer)?);
        let step = step.map_err(|_| self.strange())?;
        let (next, seen, elsewhere, took_us) = step;
        // A server that cannot tell how long it took was not busy with it for longer than its answer was waited for.
        let took = if took_us == 0 { asked.elapsed() } else { Duration::from_micros(took_us) };
        self.cost.add(CALL_COST + took);
        let mut keys = Vec::with_capacity(seen.len());
        for body in seen {
            keys.push(body::decode(&body)?.key);
        }
        let found = try_join_all(elsewhere.iter().map(|name| self.look(name))).await?;
        keys.extend(found.into_iter().flatten());
        Ok(Step { next, keys })
    }

    /// What a join came to, in the words of the contract.
    fn verdict(&self, ticket: &Ticket, joined: Joined) -> Result<Option<Place>> {
        let key = &ticket.key;
        match joined {
            Joined::In(place) => Ok(Some(place)),
            Joined::Busy => Ok(None),
            Joined::Mixed(of) => Err(refusal::other_capacity(key, of, ticket.share)),
            Joined::OfAnother(owner) => {
                // A server may repeat what it was told.
                let owner = without(self.settings().secrets(), owner);
                let owner = owner.as_deref().unwrap_or("somebody");
                Err(refusal::id_of_another(key, ticket.id, owner))
            }
            Joined::Full => Err(refusal::line_is_full(key)),
            Joined::NoNumbersLeft(number) => Err(refusal::no_numbers_left(key, number)),
            Joined::TooManyShares(shares) => Err(Error::rejected(format!(
                "{shares} different sizes wait in the line of {key:?}, which is as many as it takes: ask for one of those, or later"
            ))),
        }
    }

    fn script(&self, which: fn(&Scripts) -> &Script) -> &Script {
        which(self.deployment.scripts())
    }
}

impl<D: Deployment> Engine for Store<D> {
    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    async fn join(&self, ticket: &Ticket, patience: Patience) -> Result<Option<Place>> {
        ticket.check()?;
        let route = self.deployment.here().await?;
        route.trust(ticket)?;
        let name = self.name(&ticket.key);
        let route = route.keeping(&name);
        let join = Join::new(&name, ticket, &self.inbox, patience);
        let asking = self.mail.expect_answer(ticket.id, ticket.ttl);
        let call = || join.call(self.deployment.scripts());
        let answer = self.answered(route.ask(join.wish(), call).await);
        let joined = answer.and_then(|answer| self.known(join.read(&answer)));
        let place = match joined.and_then(|joined| self.verdict(ticket, joined)) {
            Ok(Some(place)) => place,
            outcome => {
                if outcome.as_ref().err().is_none_or(|error| !error.is_unknown()) {
                    self.forget(ticket, &name);
                }
                return outcome;
            }
        };
        asking.let_in();
        self.mail.learn(ticket.id, &place);
        // Where it is not, its owner asks again, or gives the ticket back.
        route.acknowledged().await?;
        Ok(Some(place))
    }

    async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        ticket.check()?;
        let name = self.name(&ticket.key);
        let route = self.deployment.here().await?.keeping(&name);
        let renewal = Renew::new(&name, ticket, &self.inbox);
        self.mail.expect(ticket.id, ticket.ttl);
        let call = || renewal.call(self.deployment.scripts());
        let answer = self.ask_even_if_full(&route, renewal.wish(), call).await?;
        match self.known(renewal.read(&answer))? {
            Renewed::In(place) => {
                self.mail.learn(ticket.id, &place);
                route.acknowledged().await?;
                Ok(Some(place))
            }
            Renewed::Out => {
                self.forget(ticket, &name);
                Ok(None)
            }
        }
    }

    async fn leave(&self, ticket: &Ticket, how: Leave) -> Result<Left> {
        let route = self.deployment.here().await?;
        let name = self.name(&ticket.key);
        let go = Go::new(&name, ticket, &self.inbox, how, self.mail.lives(ticket.id));
        let call = || go.call(self.deployment.scripts());
        let answer = self.ask_even_if_full(&route, go.wish(), call).await?;
        let (left, letters) = self.known(Go::read(&answer))?;
        for letter in letters {
            letter::deliver(&self.mail, letter);
        }
        if left != Left::Told {
            self.forget(ticket, &name);
        }
        Ok(left)
    }

    async fn watch(&self, ticket: &Ticket, seen: Standing) -> Result<Wake> {
        if self.mail.expects(ticket.id) {
            let hears = self.deployment.hear_of(|| self.name(&ticket.key), ticket.id);
            if self.answered(hears.await)? {
                // What was missed is in the answer, which also is in the mail from now on.
                self.renew(ticket).await?;
            }
        }
        Ok(self.mail.watch(ticket.id, seen).await)
    }

    async fn events(&self, scope: &Scope, after: Option<Cursor>) -> Result<News> {
        self.sampler.events(self, &self.host, scope, after).await
    }

    async fn line(&self, key: &Key) -> Result<Vec<(Ticket, Place)>> {
        let route = self.deployment.here().await?;
        let call = self.script(|scripts| &scripts.list).on(&self.name(key));
        let answer = self.answered(route.call(&call).await)?;
        let line = self.known(reply::line(&answer, key))??;
        let tickets = u32::try_from(line.len()).unwrap_or(u32::MAX);
        self.cost.add(CALL_COST + TICKET_COST * tickets);
        Ok(line)
    }

    async fn keys(&self, prefix: &str) -> Result<Vec<Key>> {
        let mut keys = BTreeSet::new();
        for master in self.answered(self.deployment.masters().await)? {
            let mut cursor = "0".to_owned();
            loop {
                let step = self.some_keys(&master, &cursor).await?;
                keys.extend(step.keys.into_iter().filter(|key| key.as_str().starts_with(prefix)));
                if step.next == "0" {
                    break;
                }
                cursor = step.next;
            }
        }
        Ok(keys.into_iter().collect())
    }

    async fn tally(&self, key: &Key, by: u64, window: Option<Window>) -> Result<Tally> {
        let name = self.name(key);
        let route = self.deployment.here().await?.keeping(&name);
        let by_now = by.min(NUMBER_MAX + 1);
        let answer = match window {
            None => {
                let mut call = self.script(|scripts| &scripts.sequence).on(&(name + ":n"));
                call.arg(by_now);
                // Sent again, it skips numbers.
                let answer = self.answered(route.call(&call).await)?;
                if by > 0 {
                    // Where replicas do not have the number, it is skipped.
                    route.acknowledged().await?;
                }
                answer
            }
            Some(Window { per, limit }) => {
                let per = u64::try_from(per.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
                let mut call = self.script(|scripts| &scripts.count).on(&(name + ":c"));
                call.arg(by_now).arg(per.clamp(1, WINDOW_MS_MAX));
                match limit {
                    Some(limit) => call.arg(limit.min(NUMBER_MAX)),
                    None => call.arg(-1),
                };
                self.answered(route.call_once(&call).await)?
            }
        };
        let (verdict, tally) = self.known(reply::tallied(&answer))?;
        if verdict < 0 {
            return Err(refusal::count_is_full(key, tally.value, by));
        }
        Ok(tally)
    }

    async fn close(&self) {}
}

/// The next cursor, what may be seen of a ticket of each line, heads that were not read, microseconds.
type StepAnswer = (String, Vec<Vec<u8>>, Vec<String>, u64);

/// What one step through the keys of a server found.
struct Step {
    /// Where the next one begins.
    next: String,
    keys: Vec<Key>,
}
