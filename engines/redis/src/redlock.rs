//! `RedLock`: a majority of servers that know nothing of each other, each of which may be down.

use std::sync::Arc;

use futures_util::future::try_join_all;
use tenure_core::wrap::{AnyEngine, Board, Hosted, Quorum};
use tenure_core::{Error, Host as Home, Locks, PrivateThread, Result};
use tenure_kit::url::Address;

use crate::engine::RedisStore;
use crate::settings::{Place, Settings};

/// Locks over a majority of independent servers, and how each of these answers.
pub struct RedLock {
    locks: Locks,
    board: Board,
}

impl RedLock {
    /// Connects to the servers of a `redlock://` URL, a majority of which must answer.
    pub async fn open(url: impl AsRef<str>) -> Result<Self> {
        Self::connect(&Settings::parse(url.as_ref())?).await
    }

    pub(crate) async fn connect(settings: &Settings) -> Result<Self> {
        let home: Arc<dyn Home> = Arc::new(PrivateThread::for_drivers());
        let quorum = quorum(settings, home.clone()).await?;
        let board = quorum.board();
        Ok(Self { locks: Locks::on(crate::asking_again(quorum, &home), home), board })
    }

    /// The engine alone, for a host of the caller's own, on which its connections live.
    pub async fn engine(url: impl AsRef<str>, home: Arc<dyn Home>) -> Result<AnyEngine> {
        let quorum = quorum(&Settings::parse(url.as_ref())?, home.clone()).await?;
        Ok(AnyEngine::new(crate::asking_again(quorum, &home)))
    }

    /// The locks.
    pub fn locks(&self) -> &Locks {
        &self.locks
    }

    /// How each server answered when it was asked last.
    pub fn board(&self) -> &Board {
        &self.board
    }
}

async fn quorum(settings: &Settings, home: Arc<dyn Home>) -> Result<Quorum> {
    let Place::Redlock(hosts) = &settings.place else {
        return Err(Error::invalid("a RedLock is over several servers: write redlock://h1,h2,h3"));
    };
    let stores = try_join_all(hosts.iter().map(|host| store(&home, settings, host))).await?;
    let far: Vec<&Error> = stores.iter().filter_map(|store| store.inner().trouble()).collect();
    if stores.len() - far.len() <= stores.len() / 2 {
        let why: Vec<String> = far.iter().map(ToString::to_string).collect();
        return Err(Error::unavailable(format!(
            "no majority of {} can be reached: {}",
            settings.place,
            why.join("; ")
        )));
    }
    let realm = |name| -> Vec<AnyEngine> {
        let inside = stores.iter().map(|store| Hosted::of(home.clone(), store.inner().realm(name)));
        inside.map(on_its_lanes).collect()
    };
    let (turns, clocks) = (realm("turn."), realm("clock."));
    let engines = stores.into_iter().map(on_its_lanes);
    let names = hosts.iter().map(Address::to_string);
    let quorum = Quorum::new(engines, home, settings.timeout)?.named("redlock", names);
    quorum.compare_clocks(clocks).await;
    Ok(quorum.with_turns(turns))
}

/// One of the servers, which may be out of reach for now.
async fn store(
    home: &Arc<dyn Home>,
    settings: &Settings,
    host: &Address,
) -> Result<Hosted<RedisStore>> {
    Hosted::make(home.clone(), RedisStore::connect_lazily(settings.node(host))).await
}

fn on_its_lanes(store: Hosted<RedisStore>) -> AnyEngine {
    AnyEngine::new(store.in_place_where(RedisStore::has_lane_here))
}
