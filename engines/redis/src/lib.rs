//! Locks kept by Redis or Valkey: one server, Sentinel, Cluster, or `RedLock` over independent masters.
//!
//! ```no_run
//! # async fn pay() -> tenure_core::Result<()> {
//! let locks = tenure_redis::connect("redis://localhost").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! # Ok(())
//! # }
//! ```
//!
//! A free lock is taken with one request and handed over with one push. Every verb is one script, which
//! Redis carries out in one step; the server's clock decides who lives. What is not promised, and how to set
//! up a server for locks, is in the README of this crate; what the server at hand promises is in
//! [`Locks::guarantees`].
//!
//! A resource in Redis can refuse the writes of those who hold a lock no more: see the crate `tenure-fence-redis`.

mod acks;
mod awake;
mod body;
mod bundle;
mod calls;
mod cluster;
mod connect;
mod engine;
mod facts;
mod lanes;
mod letter;
mod link;
mod redlock;
mod reply;
mod route;
mod script;
mod secret;
mod sentinel;
mod settings;
mod trouble;
mod url;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::wrap::{Hosted, Retry};
use tenure_core::{Engine, Host, Locks, PrivateThread, Result};

pub use engine::RedisStore;
pub use redlock::RedLock;
use settings::{Place, Settings};
pub use url::DESCRIPTION;

/// So often a verb is sent again when its answer is lost, after a pause that doubles each time.
const RETRIES: u32 = 4;
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The locks of the servers that this URL names.
///
/// | URL | servers |
/// |---|---|
/// | `redis://HOST:PORT/DB` | one, without TLS |
/// | `rediss://HOST:PORT/DB` | one, with TLS |
/// | `redis+unix:///PATH?db=DB` | one on this machine, by its socket |
/// | `redis+sentinel://H1,H2,H3/SERVICE/DB` | whichever the sentinels call the master |
/// | `redis+cluster://H1,H2,H3` | a cluster, found through any of these |
/// | `redlock://H1,H2,H3` | a majority of these, which know nothing of each other: see [`RedLock`] |
///
/// User and password stand before the hosts: `redis://user:password@host`. The options are in the README.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    let settings = Settings::parse(url.as_ref())?;
    if let Place::Redlock(_) = settings.place {
        return RedLock::connect(&settings).await.map(|redlock| redlock.locks().clone());
    }
    let host: Arc<dyn Host> = Arc::new(PrivateThread::for_drivers());
    let engine = Hosted::make(host.clone(), RedisStore::connect(settings)).await?;
    let engine = engine.in_place_where(RedisStore::has_lane_here);
    Ok(Locks::on(asking_again(engine, &host), host))
}

fn asking_again<E: Engine>(engine: E, host: &Arc<dyn Host>) -> Retry<E> {
    Retry::new(engine, host.clone(), RETRIES, RETRY_PAUSE)
}
