//! `RedLock`: a majority of independent servers, each of which may be down.

use std::sync::Arc;

use futures_util::future::try_join_all;
use tenure_core::layers::{AnyEngine, OnRuntime, Quorum, QuorumHealth};
use tenure_core::{BackgroundRuntime, Error, Locks, Result, Runtime as Home, errors};
use tenure_kit::IN_PLACE_MAX;
use tenure_kit::url::Address;

use crate::settings::{At, Settings};
use crate::store::RedisStore;
use crate::url;

/// Locks over a majority of independent servers, and the state of each of these.
pub struct RedLock {
    locks: Locks,
    board: QuorumHealth,
}

impl RedLock {
    /// Connects to the servers of a `redlock://` URL, a majority of which must answer.
    ///
    /// # Errors
    ///
    /// `Invalid` for a URL that is wrong, and `Unavailable` without a majority.
    pub async fn open(url: impl AsRef<str>) -> Result<Self> {
        let (servers, settings) = url::redlock(url.as_ref())?;
        Self::connect(&servers, &settings, Arc::new(BackgroundRuntime::for_drivers())).await
    }

    pub(crate) async fn connect(
        servers: &[Address],
        settings: &Settings,
        home: Arc<dyn Home>,
    ) -> Result<Self> {
        let quorum = quorum(servers, settings, home.clone()).await?;
        let board = quorum.board();
        Ok(Self { locks: Locks::on(crate::asking_again(quorum, &home), home), board })
    }

    /// Returns the engine alone, for a runtime of the caller's own, on which its connections live.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn engine(url: impl AsRef<str>, home: Arc<dyn Home>) -> Result<AnyEngine> {
        let (servers, settings) = url::redlock(url.as_ref())?;
        let quorum = quorum(&servers, &settings, home.clone()).await?;
        Ok(AnyEngine::new(crate::asking_again(quorum, &home)))
    }

    /// Returns the locks.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Returns the last answer of each server.
    pub fn board(&self) -> &QuorumHealth {
        &self.board
    }
}

async fn quorum(servers: &[Address], settings: &Settings, home: Arc<dyn Home>) -> Result<Quorum> {
    let stores = servers.iter().map(|server| store(&home, settings, server));
    let stores = try_join_all(stores).await?;
    let names: Vec<String> = servers.iter().map(Address::to_string).collect();
    let far: Vec<&Error> = stores.iter().filter_map(|store| store.inner().trouble()).collect();
    if stores.len() - far.len() <= stores.len() / 2 {
        return Err(Error::unavailable(format!(
            "no majority of {} can be reached: {}",
            settings.name,
            errors::join(far)
        )));
    }
    let realm = |name| -> Vec<AnyEngine> {
        let inside =
            stores.iter().map(|store| OnRuntime::of(home.clone(), store.inner().realm(name)));
        inside.map(on_its_links).collect()
    };
    let (turns, clocks) = (realm("turn."), realm("clock."));
    let engines = stores.into_iter().map(on_its_links);
    let quorum = Quorum::new(engines, home, settings.timeout)?.named("redlock", names);
    quorum.compare_clocks(clocks).await;
    Ok(quorum.with_turns(turns))
}

/// Opens one of the servers, which may be unreachable now.
async fn store(
    home: &Arc<dyn Home>,
    settings: &Settings,
    server: &Address,
) -> Result<OnRuntime<RedisStore>> {
    let (at, settings) = (At::Server(server.clone()), settings.node(server));
    let connecting = async move { RedisStore::connect_lazily(&at, &settings).await };
    OnRuntime::make(home.clone(), connecting).await
}

fn on_its_links(store: OnRuntime<RedisStore>) -> AnyEngine {
    AnyEngine::new(store.in_place_where(RedisStore::has_link_here, IN_PLACE_MAX))
}
