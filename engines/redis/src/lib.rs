//! Locks kept by Redis or Valkey: one server, Sentinel, Cluster, or `RedLock` over independent
//! masters.
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
//! A free lock costs one request, and a hand-over one push. Every verb is one script, which Redis
//! runs as one atomic step. The server's clock decides which tickets are alive. Limits, and the
//! setup of a server for locks, are in the README of this crate. [`Locks::guarantees`] returns the
//! guarantees of the server in use.
//!
//! Redis can refuse the writes of old holders to its own data: see the crate `tenure-fence-redis`.
//!
//! # Files
//!
//! Every engine uses the same names for files with the same contents:
//!
//! | file | contents |
//! |---|---|
//! | `lib` | the entry points; nothing else is needed to use the engine |
//! | `description`, `url`, `settings` | the engine's description, its URLs and its settings |
//! | `connect` | how a connection is opened: addresses, TLS, login |
//! | `link` | the server-specific part of the kit's links, and the state of one connection |
//! | `store`, `engine` | how the engine is opened, and the ten verbs |
//! | `facts` | the results of the start-up check: guarantees, refusals, warnings |
//! | `trouble` | error messages; `secret` keeps passwords out of them |
//!
//! An engine adds files for what only its store has. Redis has these:
//!
//! | file | contents |
//! |---|---|
//! | `route` | the trait of a deployment; `one` and `cluster` implement it, `redlock` combines several servers |
//! | `calls`, `pending_call`, `acks`, `task` | how a script is called, and how replicas acknowledge its writes |
//! | `verbs` | the three verbs that change a line: the call, the part in a batch, and the reading of the answer |
//! | `script`, `body`, `reply`, `letter` | the scripts, their arguments and their answers |
//! | `resolver`, `sentinel`, `patrol` | how the master is found and followed |
//! | `batch` | several verbs share one call |

mod acks;
mod batch;
mod body;
mod calls;
mod cluster;
mod connect;
mod description;
mod engine;
mod facts;
mod letter;
mod link;
mod one;
mod patrol;
mod pending_call;
mod redlock;
mod reply;
mod resolver;
mod route;
mod script;
mod secret;
mod sentinel;
mod settings;
mod store;
mod task;
mod trouble;
mod url;
mod verbs;

use std::sync::Arc;

use tenure_core::layers::{OnRuntime, Retries};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};

pub use description::DESCRIPTION;
pub use redlock::RedLock;
use settings::DeploymentKind;
pub use settings::{AfterRestart, Settings};
pub use store::{RedisCluster, RedisEngine, RedisStore};
pub use tenure_kit::tls::{Pem, Tls};

/// Retries of a verb whose answer is lost.
const RETRIES: Retries = Retries::times(4);

/// Returns the locks of the servers that this URL names.
///
/// | URL | servers |
/// |---|---|
/// | `redis://HOST:PORT/DB` | one, without TLS |
/// | `rediss://HOST:PORT/DB` | one, with TLS |
/// | `redis+unix:///PATH?db=DB` | one on this machine, by its socket |
/// | `redis+sentinel://H1,H2,H3/SERVICE/DB` | the sentinels' current master |
/// | `redis+cluster://H1,H2,H3` | a cluster, found through any of these |
/// | `redlock://H1,H2,H3` | a majority of these independent servers: see [`RedLock`] |
///
/// User and password stand before the hosts: `redis://user:password@host`. The options are in the
/// README. [`Settings`] are the same in code.
///
/// # Errors
///
/// `Invalid` for a URL that is wrong, `Unavailable` if no server can be reached, and `Rejected` if
/// the server refuses this client.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    Settings::from_url(url)?.connect().await
}

async fn open(settings: Settings) -> Result<Locks> {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    match settings.kind {
        DeploymentKind::One(_) => {
            let connecting = async move { RedisStore::connect(&settings).await };
            Ok(locks(OnRuntime::make(host.clone(), connecting).await?, host))
        }
        DeploymentKind::Cluster(_) => {
            let connecting = async move { RedisCluster::connect(&settings).await };
            Ok(locks(OnRuntime::make(host.clone(), connecting).await?, host))
        }
        DeploymentKind::Redlock(_) => Ok(RedLock::open_with(settings).await?.locks().clone()),
    }
}

fn locks<D: route::Deployment>(store: OnRuntime<RedisEngine<D>>, host: Arc<dyn Runtime>) -> Locks {
    let store = store.in_place_where(RedisEngine::has_link_here, tenure_kit::IN_PLACE_MAX);
    Locks::with_retries(store, host, RETRIES)
}
