//! Locks kept by etcd, 3.4 to 3.6: a key for each ticket, alive with its client's lease.
//!
//! ```no_run
//! # async fn pay() -> tenure_core::Result<()> {
//! let locks = tenure_etcd::connect("etcd://h1,h2,h3").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! # Ok(())
//! # }
//! ```
//!
//! A free lock costs one request, and a release wakes one waiter. A ticket's number is the revision
//! with which its key was made. Limits, and how to set up a cluster for locks, are in the README of
//! this crate. [`Locks::guarantees`] returns what the cluster at hand promises.
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `lib` | the entry points; nothing else is needed to use the engine |
//! | `description`, `url`, `settings` | the engine's description, its URLs and its settings |
//! | `connect`, `channel`, `link` | how a connection to a member is opened, and its state |
//! | `cluster` | which member gets a request, and how revisions that go back are found |
//! | `calls`, `keep_alives` | requests, and the one stream of keep-alives |
//! | `watches`, `listeners` | the one stream of watches, and its subscribers |
//! | `signs` | a keep-alive of a session, and whether its answer counts |
//! | `client`, `store`, `entry` | the client, and its implementation of `SessionStore` |
//! | `names`, `ask` | the names of keys, and the messages of requests |
//! | `ordinals` | the last part of a ticket's key, which later tickets use again |
//! | `request_fences` | how the engine keeps a given-up request out for good |
//! | `orphans` | tickets of a session that its client does not know |
//! | `journal` | the changes of all tickets, from a watch |
//! | `still_held` | guarded writes: a comparison for a transaction of the user's |
//! | `facts` | the results of the start-up check: guarantees, warnings |
//! | `status`, `trouble` | the result of a request, as gRPC reports it, and error messages |
//! | `refused` | requests that a full member refuses but carries out |
//! | `wire` | the messages, generated from `wire/etcd.proto` |

mod ask;
mod calls;
mod channel;
mod client;
mod cluster;
mod connect;
mod description;
mod entry;
mod facts;
mod journal;
mod keep_alives;
mod link;
mod listeners;
mod names;
mod ordinals;
mod orphans;
mod refused;
mod request_fences;
mod settings;
mod signs;
mod status;
mod still_held;
mod store;
mod trouble;
mod url;
mod watches;
mod wire;

use std::sync::Arc;

use tenure_core::layers::{OnRuntime, Retries};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};
use tenure_kit::IN_PLACE_MAX;
use tenure_queue::SessionEngine;

pub use client::Etcd;
pub use description::DESCRIPTION;
pub use settings::Settings;
pub use still_held::StillHeld;
pub use tenure_kit::tls::{Pem, Tls};

/// Bare requests, for measurements beside the engine. They are not part of the public API.
#[cfg(feature = "wire")]
#[doc(hidden)]
pub mod wire_only {
    pub use crate::calls::*;
    pub use crate::channel::*;
    pub use crate::status::*;
    pub use crate::wire::*;
}

/// Retries of a verb whose answer is lost. Together they outlast an election.
const RETRIES: Retries = Retries::times(6);

/// Returns the locks of the cluster that this URL names: `etcd://H1,H2,H3`, or `etcds://` with TLS.
///
/// User and password stand before the hosts: `etcd://user:password@host`. The options are in the
/// README. [`Settings`] are the same in code.
///
/// # Errors
///
/// `Invalid` for a URL that is wrong, `Unavailable` if no member can be reached, and `Rejected` if
/// the members refuse this client.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    Settings::from_url(url)?.connect().await
}

/// Returns the engine alone, which lives on `host`.
///
/// # Errors
///
/// As [`connect()`].
pub async fn engine(url: &str, host: Arc<dyn Runtime>) -> Result<OnRuntime<SessionEngine<Etcd>>> {
    engine_with(Settings::from_url(url)?, host).await
}

async fn open(settings: Settings) -> Result<Locks> {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let engine = engine_with(settings, host.clone()).await?;
    Ok(Locks::with_retries(engine, host, RETRIES))
}

async fn engine_with(
    settings: Settings,
    host: Arc<dyn Runtime>,
) -> Result<OnRuntime<SessionEngine<Etcd>>> {
    let beats = host.clone();
    let opening = async move { Ok(SessionEngine::new(Etcd::open(settings).await?, beats)) };
    let hosted = OnRuntime::make(host, opening).await?;
    let hosted = hosted.in_place_where(|queue| queue.store().cluster.has_link_here(), IN_PLACE_MAX);
    Ok(hosted.waits_on_host())
}
