//! A cluster: the driver finds the server of each line, and each line has a channel of its own.

mod channels;
mod connect_throttle;
mod driver;
mod nodes;
mod once;
mod route;
mod slot;

use std::sync::{Arc, Weak};

use futures_util::future::{try_join, try_join_all};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{
    MultipleNodeRoutingInfo, ResponsePolicy, Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr,
};
use redis::{Arg, Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};
use tenure_core::Result;
use tenure_core::sync::Mutex;
use tenure_kit::limiter::Limiter;
use tenure_kit::subscriptions::Subscriptions;
use tenure_kit::url::Address;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::facts::Facts;
use crate::script::{NotifyVia, Script, Scripts};
use crate::script_loads::ScriptLoads;
use crate::server_facts::Version;
use crate::settings::Settings;
use crate::trouble;
use channels::Channels;
use connect_throttle::ConnectThrottle;
use driver::Driver;

/// The first version with sharded channels.
const SHARDED_SINCE: Version = Version(7, 0);
/// Maximum attempts of a call that must be carried out once at most.
const ONCE_TRIES: u32 = 4;
/// Maximum calls in flight for one part of the slots.
const PART_CALLS_MAX: usize = 8;

/// One client of a cluster.
pub struct ClusterServers {
    /// The connection for calls that may be sent again.
    driver: Arc<Driver>,
    /// The connection for calls that may not.
    once: Arc<Driver>,
    settings: Settings,
    scripts: Scripts,
    told: ScriptLoads,
    rooms: Limiter,
    facts: Facts,
    channels: Arc<Channels>,
    home: Handle,
}

impl ClusterServers {
    /// Connects to the cluster of these servers.
    pub(crate) async fn connect(
        seeds: &[Address],
        settings: &Settings,
        mail: Arc<Subscriptions>,
        inbox: String,
    ) -> Result<Self> {
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
    ) -> Result<Self> {
        // Pushes may come before there is a receiver.
        let whom: Arc<Mutex<Weak<Channels>>> = Arc::default();
        let told = whom.clone();
        let tries = ConnectThrottle::default();
        let asking = nodes::client(seeds, settings, &tries)?;
        let listening = nodes::client(seeds, settings, &tries)?.push_sender(move |push| {
            let channels = told.lock().upgrade();
            if let Some(channels) = channels {
                channels.hear(push);
            }
            Ok::<(), ()>(())
        });
        let both = try_join(nodes::connect(asking), nodes::connect(listening));
        let both = both.await.map_err(|it| trouble::no_way_into_cluster(settings, &it));
        let (connection, mut ears) = both?;
        let facts = nodes::facts_of_all(&connection).await;
        facts.fit(settings)?;
        let are_sharded = facts.version().is_none_or(|version| version >= SHARDED_SINCE);
        if !are_sharded {
            let channel = settings.channels() + &inbox;
            trouble::answered(settings, ears.subscribe(channel).await)?;
        }
        let channels = Arc::new(Channels::new(ears, are_sharded, mail, inbox));
        *whom.lock() = Arc::downgrade(&channels);
        Ok(Self {
            driver: Driver::of(connection, seeds, settings, &tries),
            once: Driver::once(seeds, settings, &tries),
            settings: settings.clone(),
            scripts: Scripts::new(if are_sharded { NotifyVia::Shard } else { NotifyVia::Channel }),
            told: ScriptLoads::default(),
            rooms: Limiter::new(slot::PARTS, PART_CALLS_MAX),
            facts,
            channels,
            home: Handle::current(),
        })
    }

    /// Sends the call of a script. Loads the scripts into a server that lacks them.
    async fn call(&self, call: &Cmd) -> RedisResult<Value> {
        let told = self.told.times();
        match self.send(call).await {
            Err(trouble) if trouble::wants_scripts(&trouble) => {
                self.told.once_more(told, self.tell_scripts()).await?;
                self.send(call).await
            }
            answer => answer,
        }
    }

    /// The same, and then returns the count of replicas that have the write. Both are sent in one
    /// piece: on another connection, WAIT counts replicas without the write.
    async fn call_and_wait(
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
    async fn call_once(&self, call: &Cmd) -> RedisResult<Value> {
        for _ in 1..ONCE_TRIES {
            let told = self.told.times();
            match self.send_once(call).await {
                Err(trouble) if trouble::wants_scripts(&trouble) => {
                    self.told.once_more(told, self.tell_scripts()).await?;
                }
                // The driver asks for the slot's server now.
                Err(trouble) if trouble.kind() == ErrorKind::Server(ServerErrorKind::Moved) => {}
                answer => return answer,
            }
        }
        self.send_once(call).await
    }

    async fn send_once(&self, call: &Cmd) -> RedisResult<Value> {
        let own = call.clone();
        self.carry(key_of(call), &self.once, |connection| once::send(connection, own)).await
    }

    async fn send_both(&self, name: &str, call: &Cmd, wait: &Cmd) -> RedisResult<(Value, Value)> {
        let master = SingleNodeRoutingInfo::SpecificNode(Route::with_key(name, SlotAddr::Master));
        let both = [call.clone(), wait.clone()];
        let ask = |connection| once::in_one_piece(connection, both, master);
        let [answer, count] = self.carry(name.as_bytes(), &self.driver, ask).await?;
        Ok((answer.extract_error()?, count.extract_error()?))
    }

    async fn send(&self, call: &Cmd) -> RedisResult<Value> {
        let own = call.clone();
        let ask = |mut connection| async move { own.query_async(&mut connection).await };
        self.carry(key_of(call), &self.driver, ask).await
    }

    /// Sends requests for this key, once there is room for them in its part of the slots. The
    /// driver finishes them even without a caller, so they keep their room until then.
    async fn carry<T, F>(
        &self,
        key: &[u8],
        driver: &Arc<Driver>,
        question: impl FnOnce(ClusterConnection) -> F + Send + 'static,
    ) -> RedisResult<T>
    where
        T: Send + 'static,
        F: Future<Output = RedisResult<T>> + Send,
    {
        let entry = self.rooms.enter(slot::part(key)).await.map_err(|_| trouble::silence())?;
        let (tell, told) = oneshot::channel();
        let (patience, silence) = (self.settings.timeout, trouble::late(&self.settings));
        let open = driver.now();
        let answer = {
            let (driver, open) = (driver.clone(), open.clone());
            async move { driver.ask_over(&open, question).await }
        };
        self.home.spawn(async move {
            let answer = timeout(patience, answer).await;
            if answer.is_ok() {
                entry.answered();
            } else {
                entry.late(&silence);
            }
            let _ = tell.send(answer.unwrap_or_else(|_| Err(trouble::silence())));
        });
        // Another caller may have found a concurrent answer strange meanwhile.
        driver.known(&open, told.await.unwrap_or_else(|_| Err(trouble::over())))
    }

    /// Loads the scripts into all masters. Does not wait for one that is silent or cannot be
    /// reached: the others have the scripts by then. Replicas get no calls, so they need no
    /// scripts.
    async fn tell_scripts(&self) -> RedisResult<()> {
        let all = MultipleNodeRoutingInfo::AllMasters;
        let to = RoutingInfo::MultiNode((all, Some(ResponsePolicy::AllSucceeded)));
        let tell = async |script: &Script| {
            let load = async |mut connection: ClusterConnection| {
                connection.route_command(script.load(), to.clone()).await?.extract_error()
            };
            self.driver.ask(load).await
        };
        let told = try_join_all(self.scripts.all().map(tell));
        match timeout(self.settings.timeout / 4, told).await {
            Ok(Err(refusal)) if refusal.code().is_some() => Err(refusal),
            _ => Ok(()),
        }
    }
}

/// Returns the key of a call of a script for one line.
fn key_of(call: &Cmd) -> &[u8] {
    match call.args_iter().nth(3) {
        Some(Arg::Simple(key)) => key,
        _ => b"",
    }
}
