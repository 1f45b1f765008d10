//! Locks kept by Redis or Valkey.
#![allow(missing_docs)]
mod acks;
mod body;
mod cluster;
mod facts;
pub mod fence;
mod lanes;
mod link;
mod mail;
mod redlock;
mod reply;
mod route;
mod script;
mod settings;
mod store;
mod trouble;
mod url;
mod way;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::wrap::{Hosted, Retry};
use tenure_core::{Host, Locks, PrivateThread, Result};

pub use redlock::RedLock;
use settings::{Place, Settings};
pub use store::RedisStore;

/// So often a verb is sent again when its answer is lost, after a pause that doubles each time.
const RETRIES: u32 = 4;
const RETRY_PAUSE: Duration = Duration::from_millis(50);

pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    let settings = Settings::parse(url.as_ref())?;
    if let Place::Redlock(_) = settings.place {
        return RedLock::connect(&settings).await.map(|redlock| redlock.locks().clone());
    }
    let host: Arc<dyn Host> = Arc::new(PrivateThread::for_drivers());
    let engine = Hosted::make(host.clone(), RedisStore::connect(settings)).await?;
    let engine = engine.in_place_where(RedisStore::has_lane_here);
    Ok(Locks::on(Retry::new(engine, host.clone(), RETRIES, RETRY_PAUSE), host))
}
