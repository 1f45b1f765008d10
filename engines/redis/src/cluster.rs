//! A cluster: the driver finds the server of each line, and each line has a channel of its own.

mod channels;
mod connect_throttle;
mod driver;
mod nodes;
mod route;
mod slot;

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{try_join, try_join_all};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, ResponsePolicy, RoutingInfo};
use redis::{Arg, Cmd, RedisResult, Value};
use tenure_core::Result;
use tenure_core::sync::Mutex;
use tenure_kit::SingleFlight;
use tenure_kit::limiter::Limiter;
use tenure_kit::subscriptions::Subscriptions;
use tenure_kit::url::Address;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::facts::{ServerFacts, Version};
use crate::script::{NotifyVia, Script, Scripts};
use crate::settings::Settings;
use crate::task::spawn_and_join;
use crate::trouble;
use channels::Channels;
use connect_throttle::ConnectThrottle;
use driver::ClusterDriver;
use nodes::Receiver;

/// The first version with sharded channels.
const SHARDED_SINCE: Version = Version(7, 0);
/// Maximum attempts of a call that servers refuse because its slot has moved, or because they lack
/// the scripts.
const ATTEMPTS_MAX: u32 = 4;
/// Maximum calls in flight for one part of the slots.
const PART_CALLS_MAX: usize = 8;

/// One client of a cluster.
pub struct ClusterServers {
    driver: Arc<ClusterDriver>,
    settings: Settings,
    scripts: Scripts,
    loads: Arc<SingleFlight<RedisResult<()>>>,
    rooms: Limiter,
    channels: Arc<Channels>,
    home: Handle,
}

impl ClusterServers {
    /// Connects to the cluster of these servers. Returns its facts, too.
    pub(crate) async fn connect(
        seeds: &[Address],
        settings: &Settings,
        mail: Arc<Subscriptions>,
        inbox: String,
    ) -> Result<(Self, ServerFacts)> {
        let limit = settings.connect_timeout + settings.timeout;
        let connecting = Box::pin(Self::try_to_connect(seeds, settings, mail, inbox));
        let connected = timeout(limit, connecting).await;
        connected.unwrap_or_else(|_| Err(trouble::out_of_reach(settings, limit)))
    }

    async fn try_to_connect(
        seeds: &[Address],
        settings: &Settings,
        mail: Arc<Subscriptions>,
        inbox: String,
    ) -> Result<(Self, ServerFacts)> {
        // Pushes may come before there is a receiver.
        let receiver: Arc<Mutex<Weak<Channels>>> = Arc::default();
        let pushed = receiver.clone();
        let throttle = ConnectThrottle::default();
        let client = |connect_timeout| nodes::client(seeds, settings, &throttle, connect_timeout);
        let listening = client(settings.connect_timeout)?.push_sender(move |push| {
            let channels = pushed.lock().upgrade();
            if let Some(channels) = channels {
                channels.hear(push);
            }
            Ok::<(), ()>(())
        });
        // The driver must resend nothing: it does not know what may be carried out twice.
        let sending = client(settings.connect_timeout)?.retries(0);
        let both = try_join(nodes::connect(sending), nodes::connect(listening)).await;
        let both = both.map_err(|it| trouble::no_way_in(settings, &it));
        let (connection, mut ears) = both?;
        // The driver waits for every node, replicas too. A node that stands still must leave time
        // for the call.
        let later = client(settings.connect_timeout.min(settings.timeout / 2))?.retries(0);
        let later = trouble::answered(settings, later.build())?;
        let facts = nodes::facts_of_all(&connection).await;
        facts.fit(settings)?;
        let are_sharded = facts.version.is_none_or(|version| version >= SHARDED_SINCE);
        if !are_sharded {
            let channel = settings.channels() + &inbox;
            trouble::answered(settings, ears.subscribe(channel).await)?;
        }
        let channels = Arc::new(Channels::new(ears, are_sharded, mail, inbox));
        *receiver.lock() = Arc::downgrade(&channels);
        let cluster = Self {
            driver: ClusterDriver::new(connection, later),
            settings: settings.clone(),
            scripts: Scripts::new(if are_sharded { NotifyVia::Shard } else { NotifyVia::Channel }),
            loads: Arc::default(),
            rooms: Limiter::new(slot::PARTS, PART_CALLS_MAX),
            channels,
            home: Handle::current(),
        };
        Ok((cluster, facts))
    }

    /// Sends the call of a script, and `WAIT` if there is one, to the master of its key in one
    /// piece: on another connection, `WAIT` counts replicas without the write. Returns the answers.
    ///
    /// Sends them again only if a server refused them: it lacks the scripts, or the slot has moved.
    async fn call(&self, call: &Cmd, wait: Option<Cmd>) -> RedisResult<Vec<Value>> {
        let key = key_of(call);
        let mut receiver = Receiver::MasterOf(key.to_vec());
        let mut attempt = 1;
        loop {
            let commands = std::iter::once(call.clone()).chain(wait.clone()).collect();
            match self.carry(key, commands, receiver.clone()).await {
                Err(trouble) if attempt < ATTEMPTS_MAX => {
                    if trouble::wants_scripts(&trouble) {
                        self.load_scripts().await?;
                    } else {
                        receiver = Receiver::after(&trouble, key).ok_or(trouble)?;
                    }
                }
                answers => return answers,
            }
            attempt += 1;
        }
    }

    /// Sends commands, once there is room for them in the part of the slots that has this key. The
    /// driver finishes them even without a caller, so they keep their room until then.
    async fn carry(
        &self,
        key: &[u8],
        commands: Vec<Cmd>,
        receiver: Receiver,
    ) -> RedisResult<Vec<Value>> {
        let entry = self.rooms.enter(slot::part(key)).await.map_err(|_| trouble::silence())?;
        let (tell, told) = oneshot::channel();
        let (patience, silence) = (self.settings.timeout, trouble::late(&self.settings));
        let driver = self.driver.clone();
        self.home.spawn(async move {
            let sent = driver.ask(|connection| nodes::send(connection, commands, receiver));
            let answers = timeout(patience, sent).await;
            if answers.is_ok() {
                entry.answered();
            } else {
                entry.late(&silence);
            }
            // The caller may have gone.
            let _ = tell.send(answers.unwrap_or_else(|_| Err(trouble::silence())));
        });
        told.await.unwrap_or_else(|_| Err(trouble::over()))
    }

    /// Loads the scripts, once for all callers that find them missing. The first caller may stop
    /// polling.
    async fn load_scripts(&self) -> RedisResult<()> {
        let (driver, loads) = (self.driver.clone(), self.loads.clone());
        let commands = self.scripts.all().map(Script::load);
        let patience = self.settings.timeout / 4;
        let load = async move { loads.run(load_into_masters(&driver, &commands, patience)).await };
        // If the runtime has ended, the answer to the call says so.
        spawn_and_join(load).await.unwrap_or(Ok(()))
    }
}

/// Loads scripts into all masters. Does not wait for one that is silent or cannot be reached: the
/// others have the scripts by then. Replicas get no calls, so they need no scripts.
async fn load_into_masters(
    driver: &ClusterDriver,
    commands: &[Cmd],
    patience: Duration,
) -> RedisResult<()> {
    let all = MultipleNodeRoutingInfo::AllMasters;
    let to = RoutingInfo::MultiNode((all, Some(ResponsePolicy::AllSucceeded)));
    let load = async |command: &Cmd| {
        let load = async |mut connection: ClusterConnection| {
            connection.route_command(command.clone(), to.clone()).await?.extract_error()
        };
        driver.ask(load).await
    };
    match timeout(patience, try_join_all(commands.iter().map(load))).await {
        Ok(Err(refusal)) if refusal.code().is_some() => Err(refusal),
        _ => Ok(()),
    }
}

/// Returns the key of a call of a script for one line.
fn key_of(call: &Cmd) -> &[u8] {
    match call.args_iter().nth(3) {
        Some(Arg::Simple(key)) => key,
        _ => b"",
    }
}
