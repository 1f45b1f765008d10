//! Locks kept by Apache `ZooKeeper`, 3.5 to 3.9: an ephemeral sequential node for each ticket,
//! alive with its client's session.
//!
//! ```no_run
//! # async fn pay() -> tenure_core::Result<()> {
//! let locks = tenure_zookeeper::connect("zookeeper://h1,h2,h3/app").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! # Ok(())
//! # }
//! ```
//!
//! A free lock costs one round trip, and a release wakes one waiter. A ticket's number is the
//! transaction in which its node was made, and never the number at the end of the node's name.
//! Limits, and how to set up an ensemble for locks, are in the README of this crate.
//! [`Locks::guarantees`](tenure_core::Locks::guarantees) returns what the ensemble at hand
//! promises.
//!
//! # Why it is right
//!
//! * **Which tickets are served**: if no other ticket is in the line, the transaction that makes
//!   the node shows that. It writes to the line, and the answer to that write counts the nodes in
//!   it. Otherwise a listing shows it, which is requested after the ticket's own create. A server
//!   may lag, but its listing has the create, and everything before it. Earlier tickets are in it
//!   or gone for good. An old listing can only make a ticket wait too long, and its watch ends
//!   that.
//! * **A listing is enough** for that: the name of a node has the ticket's capacity, take, id and
//!   tail. The data of a node is read only where it is needed.
//! * **A lost answer**: sequential creates cannot be sent twice. The client looks for the ticket by
//!   its id, on the connection of its own session and after a `sync`, which overtakes no earlier
//!   request.
//! * **Life**: a sign of life to an ensemble is a write, which only a majority confirms: a leader
//!   that was cut off answers all else by itself. The last answered sign may have reached only a
//!   follower, which reports it to the leader half a tick later, or dies before that. So the client
//!   counts the granted ttl from an earlier sign, which the leader has surely received.
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `lib` | the entry points; nothing else is needed to use the engine |
//! | `description`, `url`, `settings` | the engine's description, its URLs and its settings |
//! | `session`, `signs`, `link` | a session, its signs of life, and the session that is not for tickets |
//! | `tls` | connections by TLS, with that feature |
//! | `task` | the client crate's task of a session, and its end |
//! | `watches` | the watches of one session, which its callers share |
//! | `client`, `store`, `entry`, `put`, `used` | the client, and its implementation of `SessionStore` |
//! | `names`, `node_cache` | the names of nodes, and a cache of tickets |
//! | `nodes` | the count of nodes of each session |
//! | `still_held` | guarded writes: a check for a `multi` of the user's |
//! | `facts`, `others` | the start-up check: guarantees, warnings, servers of two ensembles |
//! | `trouble` | error messages |

mod client;
mod description;
mod entry;
mod facts;
mod link;
mod names;
mod node_cache;
mod nodes;
mod others;
mod put;
mod session;
mod settings;
mod signs;
mod still_held;
mod store;
mod task;
#[cfg(feature = "tls")]
mod tls;
mod trouble;
mod url;
mod used;
mod watches;

use std::sync::Arc;

use tenure_core::layers::{OnRuntime, Retries};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};
use tenure_queue::SessionEngine;

pub use client::ZooKeeper;
pub use description::DESCRIPTION;
pub use settings::{AclOwner, Settings};
pub use still_held::StillHeld;
pub use tenure_kit::tls::{Pem, Tls};

/// Retries of a verb whose answer is lost. Together they outlast an election.
const RETRIES: Retries = Retries::times(6);

/// Returns the locks of the ensemble that this URL names: `zookeeper://H1,H2,H3/CHROOT`.
///
/// User and password stand before the hosts: `zookeeper://user:password@host`. The options are in
/// the README. [`Settings`] are the same in code.
///
/// # Errors
///
/// `Invalid` for a URL that is wrong, `Unavailable` if no server can be reached, and `Rejected` if
/// the servers refuse this client.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    Settings::from_url(url)?.connect().await
}

/// Returns the engine alone, which lives on `host`.
///
/// # Errors
///
/// As [`connect()`].
pub async fn engine(
    url: &str,
    host: Arc<dyn Runtime>,
) -> Result<OnRuntime<SessionEngine<ZooKeeper>>> {
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
) -> Result<OnRuntime<SessionEngine<ZooKeeper>>> {
    let signs = host.clone();
    let opening = async move { Ok(SessionEngine::new(ZooKeeper::open(settings).await?, signs)) };
    OnRuntime::make(host, opening).await
}
