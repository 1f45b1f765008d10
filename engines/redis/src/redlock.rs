//! `RedLock`: a majority of independent servers, each of which may be down.

use std::fmt;
use std::sync::Arc;

use futures_util::future::try_join_all;
use tenure_core::layers::{AnyEngine, OnRuntime, Retry};
use tenure_core::{BackgroundRuntime, Error, Locks, Result, Runtime, errors};
use tenure_kit::IN_PLACE_MAX;
use tenure_kit::url::Address;
use tenure_redlock::{Quorum, QuorumHealth};

use crate::settings::Settings;
use crate::store::RedisStore;

/// Locks over a majority of independent servers, and the state of each of these.
pub struct RedLock {
    locks: Locks,
    health: QuorumHealth,
}

impl RedLock {
    /// Connects to the servers of a `redlock://` URL, a majority of which must answer.
    ///
    /// # Errors
    ///
    /// `Invalid` for a URL that is wrong, and `Unavailable` without a majority.
    pub async fn open(url: impl AsRef<str>) -> Result<Self> {
        Self::open_with(Settings::from_url(url)?).await
    }

    /// As [`open`](Self::open), with settings that the program has built.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn open_with(settings: Settings) -> Result<Self> {
        let home: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
        let quorum = quorum(&settings, home.clone()).await?;
        let health = quorum.health();
        Ok(Self { locks: Locks::with_retries(quorum, home, crate::RETRIES), health })
    }

    /// Returns the engine alone, for a runtime of the caller's own, on which its connections live.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn engine(url: impl AsRef<str>, home: Arc<dyn Runtime>) -> Result<AnyEngine> {
        let quorum = quorum(&Settings::from_url(url)?, home.clone()).await?;
        Ok(AnyEngine::new(Retry::new(quorum, home, crate::RETRIES)))
    }

    /// Returns the locks.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// Returns the last answer of each server.
    pub fn health(&self) -> &QuorumHealth {
        &self.health
    }
}

async fn quorum(settings: &Settings, home: Arc<dyn Runtime>) -> Result<Quorum> {
    let servers = settings.voters()?;
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
    Ok(quorum.with_wait_queues(turns))
}

/// Opens one of the servers, which may be unreachable now.
async fn store(
    home: &Arc<dyn Runtime>,
    settings: &Settings,
    server: &Address,
) -> Result<OnRuntime<RedisStore>> {
    let settings = settings.node(server);
    let connecting = async move { RedisStore::connect_lazily(&settings).await };
    OnRuntime::make(home.clone(), connecting).await
}

fn on_its_links(store: OnRuntime<RedisStore>) -> AnyEngine {
    AnyEngine::new(store.in_place_where(RedisStore::has_link_here, IN_PLACE_MAX))
}

impl fmt::Debug for RedLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedLock").field("locks", &self.locks).finish_non_exhaustive()
    }
}
