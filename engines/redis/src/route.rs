//! Routes: from a verb to the server that keeps the line.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use redis::{Cmd, RedisResult, Value, cmd};
use tenure_core::{Error, Result, Ticket, TicketId};
use tenure_kit::Client;
use tenure_kit::mailbox::Mailbox;
use tokio::time::{Instant, timeout, timeout_at};

use crate::bundle::Wish;
use crate::calls;
use crate::cluster::Cluster;
use crate::facts::Facts;
use crate::lanes::Lanes;
use crate::link::{self, Connection, Link, Master};
use crate::script::Scripts;
use crate::settings::{Place, Settings, Young};
use crate::trouble;

/// All routes of one client.
pub(crate) enum Routes {
    Server { lanes: Lanes, client: Arc<Client<Master>>, facts: Facts },
    Cluster(Arc<Cluster>),
}

/// The route of one verb, and the moment at which its time is over.
pub(crate) struct Route<'a> {
    to: To<'a>,
    until: Instant,
    /// Where what is written is to be acknowledged, and where that must travel with it.
    keeps: Option<Keeps>,
}

/// What is asked together with a call, and what came of it.
struct Keeps {
    name: String,
    wait: Cmd,
    replicas: AtomicU64,
}

enum To<'a> {
    Server(Arc<Link>, Arc<Connection>),
    Cluster(&'a Arc<Cluster>),
}

/// The address of one of a cluster's masters.
pub(crate) type Address = (String, u16);

impl Routes {
    /// Opens them, and says why the server cannot be reached now if it may be later.
    pub(crate) async fn open(
        settings: &Settings,
        mail: &Arc<Mailbox>,
        inbox: &str,
    ) -> Result<(Self, Option<Error>)> {
        if let Place::Cluster(_) = settings.place {
            let connecting = Cluster::connect(settings, mail.clone(), inbox.to_owned());
            let limit = settings.connect_timeout + settings.timeout;
            let connected = timeout(limit, Box::pin(connecting)).await;
            let cluster = connected.unwrap_or_else(|_| Err(trouble::late(&settings.place)))?;
            return Ok((Self::Cluster(cluster), None));
        }
        let client = Master::client(settings, mail.clone(), inbox.to_owned())?;
        let home = link::home(&client);
        let (facts, trouble) = match home.connection().await {
            Ok(connection) => (connection.facts.clone(), None),
            Err(error) if error.is_unknown() => (Facts::default(), Some(error)),
            Err(error) => return Err(error),
        };
        Ok((Self::Server { lanes: Lanes::new(client.clone(), home), client, facts }, trouble))
    }

    /// The route for whoever calls. From now on the time runs that a verb has.
    pub(crate) async fn here(&self) -> Result<Route<'_>> {
        let until = Instant::now() + self.settings().timeout;
        let to = match self {
            Self::Server { lanes, client, .. } => {
                let link = lanes.here();
                let connection = match link.current() {
                    Some(connection) => connection,
                    None => timeout_at(until, link.connection())
                        .await
                        .unwrap_or_else(|_| Err(trouble::late(&client.server().settings.place)))?,
                };
                To::Server(link, connection)
            }
            Self::Cluster(cluster) => To::Cluster(cluster),
        };
        Ok(Route { to, until, keeps: None })
    }

    pub(crate) fn has_one_here(&self) -> bool {
        match self {
            Self::Server { lanes, .. } => lanes.has_one_here(),
            Self::Cluster(cluster) => cluster.is_home(),
        }
    }

    fn settings(&self) -> &Settings {
        match self {
            Self::Server { client, .. } => &client.server().settings,
            Self::Cluster(cluster) => cluster.settings(),
        }
    }

    pub(crate) fn scripts(&self) -> &Scripts {
        match self {
            Self::Server { client, .. } => &client.server().scripts,
            Self::Cluster(cluster) => cluster.scripts(),
        }
    }

    /// What the server said of itself when it was first met.
    pub(crate) fn facts(&self) -> &Facts {
        match self {
            Self::Server { facts, .. } => facts,
            Self::Cluster(cluster) => cluster.facts(),
        }
    }

    /// Every server that keeps lines: `None` is the only one.
    pub(crate) async fn masters(&self) -> RedisResult<Vec<Option<Address>>> {
        match self {
            Self::Server { .. } => Ok(vec![None]),
            Self::Cluster(cluster) => {
                let masters = timeout(cluster.settings().timeout, cluster.masters()).await;
                let masters = masters.unwrap_or_else(|_| Err(calls::late()))?;
                Ok(masters.into_iter().map(Some).collect())
            }
        }
    }

    /// Sends a command to one of these.
    pub(crate) async fn ask(
        &self,
        master: Option<&Address>,
        command: &Cmd,
    ) -> Result<RedisResult<Value>> {
        let route = self.here().await?;
        match (&route.to, master) {
            (To::Server(..), _) => Ok(route.call(command).await),
            (To::Cluster(cluster), Some(master)) => {
                Ok(route.in_time(cluster.ask(master.clone(), command)).await)
            }
            (To::Cluster(_), None) => Err(Error::invalid("a cluster has more than one server")),
        }
    }

    /// Mail for this ticket is wanted. `true`: that took a step, before which some may have been missed.
    pub(crate) async fn hear_of(&self, name: &str, id: TicketId) -> RedisResult<bool> {
        match self {
            Self::Server { .. } => Ok(false),
            Self::Cluster(cluster) => cluster.hear_of(name, id).await,
        }
    }

    pub(crate) fn wait_no_more(&self, name: &str, id: TicketId) {
        if let Self::Cluster(cluster) = self {
            cluster.wait_no_more(name, id);
        }
    }
}

impl Route<'_> {
    /// The same, for what the line with this name shall keep: to be [acknowledged](Self::acknowledged).
    pub(crate) fn keeping(self, settings: &Settings, name: &str) -> Self {
        let travels_along = settings.acks > 0 && matches!(self.to, To::Cluster(_));
        let keeps = travels_along.then(|| Keeps {
            name: name.to_owned(),
            wait: wait(settings),
            replicas: AtomicU64::new(0),
        });
        Self { keeps, ..self }
    }

    pub(crate) async fn call(&self, call: &Cmd) -> RedisResult<Value> {
        match (&self.to, &self.keeps) {
            (To::Server(link, connection), _) => {
                self.in_time(calls::send(link, connection, call)).await
            }
            (To::Cluster(cluster), None) => self.in_time(cluster.call(call)).await,
            (To::Cluster(cluster), Some(Keeps { name, wait, replicas })) => {
                let asked = Box::pin(cluster.call_and_wait(name, call, wait));
                let (answer, count) = self.in_time(asked).await?;
                replicas.store(counted(&count).unwrap_or(0), Ordering::Relaxed);
                Ok(answer)
            }
        }
    }

    /// The same, for a call that must not be carried out twice.
    pub(crate) async fn call_once(&self, call: &Cmd) -> RedisResult<Value> {
        match &self.to {
            To::Server(..) => self.call(call).await,
            To::Cluster(cluster) => self.in_time(Box::pin(cluster.call_once(call))).await,
        }
    }

    fn in_time<T>(
        &self,
        answer: impl Future<Output = RedisResult<T>>,
    ) -> impl Future<Output = RedisResult<T>> {
        timeout_at(self.until, answer).map(|answer| answer.unwrap_or_else(|_| Err(calls::late())))
    }

    /// Asks for a verb by a call of its own; or together with others, where much is under way and it is
    /// something to wish for.
    pub(crate) async fn ask(
        &self,
        wish: Option<Wish<'_>>,
        call: impl FnOnce() -> Cmd,
    ) -> RedisResult<Value> {
        let To::Server(link, connection) = &self.to else { return self.call(&call()).await };
        let _counted = connection.bundles.one_more();
        let asked = async {
            let Some(wish) = wish else { return calls::send(link, connection, &call()).await };
            if let Some(answer) = calls::send_bundled(link, connection, &wish).await? {
                return Ok(answer);
            }
            if wish.is_join() {
                return calls::send_awake(link, connection, &call()).await;
            }
            calls::send(link, connection, &call()).await
        };
        self.in_time(asked).await
    }

    /// Refuses a ticket where locks may have been forgotten that somebody still believes in.
    pub(crate) fn trust(&self, settings: &Settings, ticket: &Ticket) -> Result<()> {
        let To::Server(_, connection) = &self.to else { return Ok(()) };
        if settings.young == Young::Trust {
            return Ok(());
        }
        if ticket.ttl > settings.ttl_max {
            return Err(Error::invalid(format!(
                "a ttl of {:?} is longer than these servers are set up for: ask for less than {:?}, or say a longer `ttl_max` in every URL",
                ticket.ttl, settings.ttl_max
            )));
        }
        match connection.facts.is_young_for(settings, connection.since.elapsed()) {
            None => Ok(()),
            Some(left) => Err(Error::unavailable(format!(
                "the server {} started so short a time ago that it may have forgotten locks: it gives none for another {left:.0?}, unless the URL says young=trust",
                settings.place
            ))),
        }
    }

    /// Waits until enough replicas have what was written last.
    pub(crate) async fn acknowledged(&self, settings: &Settings) -> Result<()> {
        if settings.acks == 0 {
            return Ok(());
        }
        let count = match (&self.to, &self.keeps) {
            (To::Server(link, connection), _) => {
                let ask = async {
                    let answer = calls::send(link, connection, &wait(settings)).await;
                    let count = counted(&trouble::answered(settings, answer)?);
                    count.ok_or_else(|| trouble::strange(&settings.place))
                };
                let counted = timeout_at(self.until, connection.acks.count(ask)).await;
                counted.unwrap_or_else(|_| Err(trouble::late(&settings.place)))?
            }
            (To::Cluster(_), Some(keeps)) => keeps.replicas.load(Ordering::Relaxed),
            (To::Cluster(_), None) => 0,
        };
        if count >= settings.acks.into() {
            return Ok(());
        }
        Err(Error::unavailable(format!(
            "only {count} of the {} required replicas of {} confirmed the ticket within {:?}",
            settings.acks,
            settings.place,
            patience(settings)
        )))
    }
}

/// For how long replicas may take to acknowledge. The connection carries nothing else meanwhile.
fn patience(settings: &Settings) -> Duration {
    settings.timeout / 4
}

fn wait(settings: &Settings) -> Cmd {
    let mut wait = cmd("WAIT");
    wait.arg(settings.acks).arg(patience(settings).as_millis().max(1).to_string());
    wait
}

/// How many replicas that are, as WAIT says.
fn counted(answer: &Value) -> Option<u64> {
    match answer {
        Value::Int(count) => u64::try_from(*count).ok(),
        _ => None,
    }
}
