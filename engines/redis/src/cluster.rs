//! A cluster: the connection finds the server of each line, and mail comes by sharded channels.

mod once;
mod slot;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::{try_join, try_join_all};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::{
    Arg, Cmd, ErrorKind, PushInfo, PushKind, RedisResult, ServerErrorKind, TlsMode, Value, cmd,
};
use tenure_core::{Error, Result, TicketId};
use tenure_kit::findings::Version;
use tenure_kit::mailbox::Mailbox;
use tenure_kit::rooms::Rooms;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, oneshot};
use tokio::time::timeout;

use crate::calls::{self, Told};
use crate::facts::Facts;
use crate::route::Address;
use crate::script::{Post, Script, Scripts};
use crate::settings::{Place, Settings};
use crate::{connect as connecting, letter, trouble};
use once::Once;

/// The first version with sharded channels.
const SHARDED_SINCE: Version = Version(7, 0);
/// So many channels of lines in which nobody waits any more may stay subscribed.
const IDLE_MAX: usize = 256;
/// So often a call is sent that must be carried out once at most.
const ONCE_TRIES: u32 = 4;

/// The most calls that may be under way for one part of the slots.
const PART_CALLS_MAX: usize = 8;

/// One client of a cluster.
pub(crate) struct Cluster {
    connection: ClusterConnection,
    /// Hears the mail, and carries no verbs. A slot that moves takes its channels away unasked, which the
    /// driver takes for the answer to whatever it has asked last: from then on, each answer goes to
    /// another question.
    ears: ClusterConnection,
    once: Arc<Once>,
    settings: Arc<Settings>,
    scripts: Scripts,
    told: Told,
    rooms: Rooms,
    facts: Facts,
    mail: Arc<Mailbox>,
    inbox: String,
    /// The sharded channels by name; `None` where one channel brings all mail.
    channels: Option<Mutex<Channels>>,
    home: Handle,
}

type Channels = HashMap<String, Channel>;

/// The way of the mail from one line.
#[derive(Default)]
struct Channel {
    /// Set once the server has confirmed it.
    open: Arc<OnceCell<()>>,
    waiting: HashSet<TicketId>,
}

impl Cluster {
    pub(crate) async fn connect(
        settings: &Settings,
        mail: Arc<Mailbox>,
        inbox: String,
    ) -> Result<Arc<Self>> {
        // The pushes may begin before there is whom to tell.
        let whom: Arc<Mutex<Weak<Self>>> = Arc::default();
        let told = whom.clone();
        let listening = client(settings)?.push_sender(move |push| {
            let cluster = lock(&told).upgrade();
            if let Some(cluster) = cluster {
                cluster.hear(push);
            }
            Ok::<(), ()>(())
        });
        let (connection, mut ears) = trouble::answered(
            settings,
            try_join(connect(client(settings)?), connect(listening)).await,
        )?;
        let facts = facts_of_all(&connection).await;
        facts.fit(settings)?;
        let sharded = facts.version().is_none_or(|version| version >= SHARDED_SINCE);
        let scripts = Scripts::new(if sharded { Post::Shard } else { Post::Channel });
        if !sharded {
            let channel = settings.channels() + &inbox;
            trouble::answered(settings, ears.subscribe(channel).await)?;
        }
        let cluster = Arc::new(Self {
            connection,
            ears,
            once: Arc::default(),
            settings: Arc::new(settings.clone()),
            scripts,
            told: Told::default(),
            rooms: Rooms::new(slot::PARTS, PART_CALLS_MAX),
            facts,
            mail,
            inbox,
            channels: sharded.then(Mutex::default),
            home: Handle::current(),
        });
        *lock(&whom) = Arc::downgrade(&cluster);
        Ok(cluster)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(crate) fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Sends the call of a script. A server that does not know the scripts is told them.
    pub(crate) async fn call(&self, call: &Cmd) -> RedisResult<Value> {
        let told = self.told.times();
        match self.send(call).await {
            Err(trouble) if trouble::wants_scripts(&trouble) => {
                self.told.once_more(told, self.tell_scripts()).await?;
                self.send(call).await
            }
            answer => answer,
        }
    }

    /// The same, and then how many replicas have what was written: in one piece, since on another connection
    /// than that of the call, WAIT counts replicas that have nothing of it.
    pub(crate) async fn call_and_wait(
        &self,
        name: &str,
        call: &Cmd,
        wait: &Cmd,
    ) -> RedisResult<(Value, Value)> {
        let told = self.told.times();
        match self.send_both(name, call, wait).await {
            Err(trouble) if trouble::wants_scripts(&trouble) => {
                self.told.once_more(told, self.tell_scripts()).await?;
                self.send_both(name, call, wait).await
            }
            answer => answer,
        }
    }

    /// Sends the call of a script, and never again once it may have been carried out.
    pub(crate) async fn call_once(&self, call: &Cmd) -> RedisResult<Value> {
        for _ in 1..ONCE_TRIES {
            let told = self.told.times();
            match self.send_once(call).await {
                Err(trouble) if trouble::wants_scripts(&trouble) => {
                    self.told.once_more(told, self.tell_scripts()).await?;
                }
                // The driver asks where the slot is now.
                Err(trouble) if trouble.kind() == ErrorKind::Server(ServerErrorKind::Moved) => {}
                answer => return answer,
            }
        }
        self.send_once(call).await
    }

    async fn send_once(&self, call: &Cmd) -> RedisResult<Value> {
        let (once, settings, own) = (self.once.clone(), self.settings.clone(), call.clone());
        self.carry(key_of(call), async move { once.call(&settings, &own).await }).await
    }

    async fn send_both(&self, name: &str, call: &Cmd, wait: &Cmd) -> RedisResult<(Value, Value)> {
        let master = SingleNodeRoutingInfo::SpecificNode(Route::with_key(name, SlotAddr::Master));
        let (connection, both) = (self.connection.clone(), [call.clone(), wait.clone()]);
        let answers = async move { once::in_one_piece(&connection, both, master).await };
        let [answer, count] = self.carry(name.as_bytes(), answers).await?;
        Ok((answer.extract_error()?, count.extract_error()?))
    }

    /// The addresses of all masters.
    pub(crate) async fn masters(&self) -> RedisResult<Vec<Address>> {
        masters(&self.connection).await
    }

    /// Sends a command to this one server.
    pub(crate) async fn ask(&self, master: Address, command: &Cmd) -> RedisResult<Value> {
        ask(&self.connection, master, command).await
    }

    /// This ticket hears of its line from now on. `true`: it did not before, and may have missed something.
    pub(crate) async fn hear_of(&self, key: &str, id: TicketId) -> RedisResult<bool> {
        let Some(channels) = &self.channels else { return Ok(false) };
        let name = self.channel(key);
        let (open, idle) = {
            let mut channels = lock(channels);
            let idle = if channels.len() > IDLE_MAX {
                take_idle(&mut channels, &name)
            } else {
                Vec::new()
            };
            let channel = channels.entry(name.clone()).or_default();
            channel.waiting.insert(id);
            (channel.open.clone(), idle)
        };
        if !idle.is_empty() {
            let mut ears = self.ears.clone();
            self.home.spawn(async move {
                // Each channel has a slot of its own, and a question is about one slot.
                for channel in idle {
                    if let Err(error) = ears.sunsubscribe(&channel).await {
                        tracing::debug!(
                            code = error.code(),
                            "a channel stays subscribed where nobody waits"
                        );
                    }
                }
            });
        }
        if open.initialized() {
            return Ok(false);
        }
        open.get_or_try_init(|| async { self.ears.clone().ssubscribe(&name).await }).await?;
        Ok(true)
    }

    /// It waits no more.
    pub(crate) fn wait_no_more(&self, key: &str, id: TicketId) {
        if let Some(channels) = &self.channels
            && let Some(channel) = lock(channels).get_mut(&self.channel(key))
        {
            channel.waiting.remove(&id);
        }
    }

    fn channel(&self, key: &str) -> String {
        format!("{key}:{}", self.inbox)
    }

    /// The slot of this channel has moved: it is followed, and meanwhile the heartbeats find out.
    fn follow(&self, channel: String) {
        let mut ears = self.ears.clone();
        self.home.spawn(async move {
            if let Err(error) = ears.ssubscribe(&channel).await {
                tracing::debug!(
                    code = error.code(),
                    "a channel was lost: who waits there looks by heartbeat"
                );
            }
        });
    }

    /// Something was said without having been asked for.
    fn hear(self: &Arc<Self>, push: PushInfo) {
        let channel = match push.data.first() {
            Some(Value::BulkString(channel)) => String::from_utf8_lossy(channel).into_owned(),
            _ => String::new(),
        };
        match (push.kind, &push.data[..]) {
            (PushKind::SMessage | PushKind::Message, [_, Value::BulkString(letter)]) => {
                letter::deliver(&self.mail, letter);
            }
            (PushKind::SSubscribe, _) => {
                for id in self.waiting_at(&channel) {
                    self.mail.look(id);
                }
            }
            // Its slot has moved, or nobody waits there any more.
            (PushKind::SUnsubscribe, _) if !self.waiting_at(&channel).is_empty() => {
                self.follow(channel);
            }
            (PushKind::Subscribe | PushKind::Disconnection, _) => self.mail.interrupted(),
            _ => {}
        }
    }

    fn waiting_at(&self, channel: &str) -> Vec<TicketId> {
        let Some(channels) = &self.channels else { return Vec::new() };
        match lock(channels).get(channel) {
            Some(channel) if channel.open.initialized() => {
                channel.waiting.iter().copied().collect()
            }
            _ => Vec::new(),
        }
    }

    async fn send(&self, call: &Cmd) -> RedisResult<Value> {
        let (mut connection, own) = (self.connection.clone(), call.clone());
        let answer = async move { own.query_async(&mut connection).await };
        self.carry(key_of(call), answer).await
    }

    /// Sends what is for this key, once there is room for it in its part of the slots. The driver sees to it even
    /// if nobody waits any more, so its room is taken until then.
    async fn carry<T: Send + 'static>(
        &self,
        key: &[u8],
        answer: impl Future<Output = RedisResult<T>> + Send + 'static,
    ) -> RedisResult<T> {
        let entry = self.rooms.enter(slot::part(key)).await.map_err(|_| calls::late())?;
        let (tell, told) = oneshot::channel();
        let (patience, silence) = (self.settings.timeout, trouble::late(&self.settings.place));
        self.home.spawn(async move {
            let answer = timeout(patience, answer).await;
            if answer.is_ok() {
                entry.answered();
            } else {
                entry.late(&silence);
            }
            let _nobody_waits = tell.send(answer.unwrap_or_else(|_| Err(calls::late())));
        });
        told.await.unwrap_or_else(|_| Err(calls::over()))
    }

    /// Tells all masters the scripts. One that is silent is not waited for, nor one that cannot be reached: the
    /// others know the scripts by then. Replicas are not told, since they are asked nothing.
    async fn tell_scripts(&self) -> RedisResult<()> {
        let all = MultipleNodeRoutingInfo::AllMasters;
        let to = RoutingInfo::MultiNode((all, Some(ResponsePolicy::AllSucceeded)));
        let tell = async |script: &Script| {
            let told = self.connection.clone().route_command(script.load(), to.clone()).await;
            told?.extract_error()
        };
        let told = try_join_all(self.scripts.all().map(tell));
        match timeout(self.settings.timeout / 4, told).await {
            Ok(Err(refusal)) if refusal.code().is_some() => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Whether whoever calls lives where the connection does.
    pub(crate) fn is_home(&self) -> bool {
        Handle::try_current().is_ok_and(|here| here.id() == self.home.id())
    }
}

pub(crate) async fn connect(client: ClusterClientBuilder) -> RedisResult<ClusterConnection> {
    client.build()?.get_async_connection().await
}

pub(crate) fn client(settings: &Settings) -> Result<ClusterClientBuilder> {
    let Place::Cluster(hosts) = &settings.place else {
        return Err(Error::invalid("that is no cluster"));
    };
    let nodes =
        hosts.iter().map(|host| connecting::info(connecting::address(host, settings), settings));
    let nodes: Vec<_> = nodes.collect::<Result<_>>()?;
    let mut builder = ClusterClientBuilder::new(nodes)
        .use_protocol(redis::ProtocolVersion::RESP3)
        .connection_timeout(settings.connect_timeout)
        .response_timeout(settings.timeout);
    if let Some(user) = &settings.login.user {
        builder = builder.username(user);
    }
    if let Some(password) = &settings.login.password {
        builder = builder.password(password.reveal());
    }
    if let Some(certificates) = connecting::certificates(settings)? {
        builder = builder.tls(TlsMode::Secure).certs(certificates);
    }
    Ok(builder)
}

async fn masters(connection: &ClusterConnection) -> RedisResult<Vec<Address>> {
    let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
    let answers = connection.clone().route_command(cmd("PING"), all).await?;
    let Value::Map(answers) = answers else { return Ok(Vec::new()) };
    let address = |(address, _): (Value, Value)| {
        let address: String = redis::from_redis_value(address).ok()?;
        let (host, port) = address.rsplit_once(':')?;
        Some((host.to_owned(), port.parse().ok()?))
    };
    Ok(answers.into_iter().filter_map(address).collect())
}

async fn ask(
    connection: &ClusterConnection,
    (host, port): Address,
    command: &Cmd,
) -> RedisResult<Value> {
    let one = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host, port });
    connection.clone().route_command(command.clone(), one).await?.extract_error()
}

/// What the masters say of themselves, taken together.
async fn facts_of_all(connection: &ClusterConnection) -> Facts {
    let (info, config) = Facts::questions();
    let mut all = Vec::new();
    // Whoever may not ask knows nothing of them, which is the worst.
    for master in masters(connection).await.unwrap_or_default() {
        let info = ask(connection, master.clone(), &info).await;
        let config = ask(connection, master, &config).await;
        all.push(Facts::of(info, config));
    }
    Facts::worst(all)
}

/// The key of a call of a script for one line.
fn key_of(call: &Cmd) -> &[u8] {
    match call.args_iter().nth(3) {
        Some(Arg::Simple(key)) => key,
        _ => b"",
    }
}

/// Takes out the channels of lines in which nobody waits.
fn take_idle(channels: &mut Channels, but: &str) -> Vec<String> {
    let is_idle = |name: &String, channel: &mut Channel| channel.waiting.is_empty() && name != but;
    channels.extract_if(is_idle).map(|(name, _)| name).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
