//! Locks kept by Apache `ZooKeeper`, 3.5 to 3.9: an ephemeral sequential node for each ticket, alive with its client's session.
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
//! A free lock is taken in one round trip, and a release wakes one waiter. The number of a ticket is the transaction in which
//! its node was made, and never the number at the end of the node's name. What is not promised, and how to set up an ensemble
//! for locks, is in the README of this crate; what the ensemble at hand promises is in
//! [`Locks::guarantees`](tenure_core::Locks::guarantees).
//!
//! # Why it is right
//!
//! * **Who is served** is told by the transaction that makes the ticket's node, if nobody else is in the line: it writes to the
//!   line, and what is answered to that counts the nodes in it. Otherwise a listing tells it that is asked for behind the
//!   ticket's own create. A server may lag, but its listing has the create, and everything before it. Who came earlier is
//!   therefore in it or gone for good, and an old listing can only make a ticket wait too long, which its watch mends.
//! * **Names tell all of that**: capacity, how much is taken, id and tail. What is in a node is read where it is needed.
//! * **A lost answer**: sequential creates cannot be sent twice. A ticket that was asked for is looked for by its id, on the
//!   connection of its own session and behind a `sync`, which overtakes nothing that was sent before.
//! * **Life**: a sign of life to an ensemble is a write, which only a majority confirms: a leader that was cut off answers all else
//!   by itself. A session ends `granted` after the leader heard of the sign of life before the last answered one. The last one
//!   may have reached another server only, which tells the leader half a tick later, or dies before it does.
//!
//! # Where what stands
//!
//! | file | what it has |
//! |---|---|
//! | `lib` | how to get locks; nothing else is needed to use the engine |
//! | `description`, `url`, `settings` | what the engine says of itself, how its URLs are read, and what they mean |
//! | `wire`, `signs`, `link` | a session, its signs of life, and the session that is not for tickets |
//! | `tls`, `no_tls` | the way to the servers by TLS, and what is said where that was left out |
//! | `driven`, `life` | the task of a session, driven by whoever wakes it, and until when |
//! | `looks`, `watches` | what those who ask over one session share |
//! | `client`, `store`, `entry`, `put`, `used` | one client, and the contract of a queue, filled in |
//! | `keys`, `roll` | the names of nodes, and what was read of them |
//! | `nodes` | how many nodes live by each session |
//! | `still_held` | guarded writes: a check for a `multi` of one's own |
//! | `facts`, `rights`, `others` | what a start-up check finds: profile, warnings, servers that are not one ensemble |
//! | `trouble` | what went wrong, as a sentence |

mod client;
mod description;
mod driven;
mod entry;
mod facts;
mod keys;
mod life;
mod link;
mod looks;
mod nodes;
mod others;
mod put;
mod rights;
mod roll;
mod settings;
mod signs;
mod still_held;
mod store;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "no_tls.rs"]
mod tls;
mod trouble;
mod url;
mod used;
mod watches;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::{OnRuntime, Retry};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};
use tenure_queue::Queue;

use crate::wire::IN_PLACE_MAX;

pub use client::ZooKeeper;
pub use description::DESCRIPTION;
pub use still_held::StillHeld;

/// So often a verb is sent again when its answer is lost, after a pause that doubles each time: for longer than an election
/// takes.
const RETRIES: u32 = 6;
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The locks of the ensemble that this URL names: `zookeeper://H1,H2,H3/CHROOT`.
///
/// User and password stand before the hosts: `zookeeper://user:password@host`. The options are in the README.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let engine = engine(url.as_ref(), host.clone()).await?;
    Ok(Locks::on(Retry::new(engine, host.clone(), RETRIES, RETRY_PAUSE), host))
}

/// The engine alone, which lives on `host`.
pub async fn engine(url: &str, host: Arc<dyn Runtime>) -> Result<OnRuntime<Queue<ZooKeeper>>> {
    let settings = url::read(url)?;
    let signs = host.clone();
    let opening = async move { Ok(Queue::new(ZooKeeper::open(settings).await?, signs)) };
    let hosted = OnRuntime::make(host, opening).await?;
    // Whoever asks sends the request themselves. What is heard is told at home.
    let hosted = hosted.in_place_where(|queue| queue.store().is_in_place(), IN_PLACE_MAX);
    Ok(hosted.waits_on_host())
}
