//! Distributed locks that tell when they are lost, with fencing tokens, over the stores people already run.
//!
//! From the top, there are three types:
//!
//! * [`Locks`] are the locks of one store; [`connect()`] gives them.
//! * A primitive is what is locked, such as a [`Mutex`]; `Locks` makes it, and it is its own builder.
//! * A [`Guard`] is a lock that is held, until it is released, dropped or lost; only a guard has a token.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> tenure::Result<()> {
//! let locks = tenure::connect("memory:").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! guard.release().await?;
//! locks.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! | wanted | is |
//! |---|---|
//! | one holder at a time | [`Mutex`] |
//! | many readers or one writer | [`RwLock`]; its writer is the mutex of the same key |
//! | k of n | [`Semaphore`] |
//! | several at once, without deadlock | [`MultiLock`] |
//! | one leader | [`Election`] |
//! | numbers that nobody else gets | [`Sequence`] |
//! | so many per second | [`Counter`] |
//! | who holds, who waits, what happens | [`Locks::line`], [`Locks::keys`], [`Locks::watch_prefix`] |
//! | to end somebody's hold | [`Locks::break_ticket`] |
//! | writes that an old holder cannot make | [`fencing`]; for data in the lock's own etcd or ZooKeeper `etcd::StillHeld` and `zookeeper::StillHeld` |
//! | no async | [`Locks::blocking`] |
//!
//! Every future that takes a lock can be given to `tokio::spawn`, and dropping one at any point leaves nothing
//! behind. None of them needs a particular runtime.
//!
//! **No lock can stop a program that does not look.** A program may be paused between its check and its
//! write for longer than any lease. Only a resource that refuses old [tokens](LeaseHandle::token) is safe from that:
//! [`fencing`] says which of them it may refuse.
//!
//! # Features
//!
//! * `file`, `redis`: the engines; both are on by default.
//! * `mongodb`, `etcd`, `zookeeper`: their engines, which bring clients of some size.
//! * `zookeeper-tls`: `zookeepers://`, for which ZooKeeper's client brings a second provider of cryptography (aws-lc) beside ring.
//!   A program that makes rustls configurations of its own then has to say which provider they use.
//! * `all`: every engine, as the command `tenure` has them.
//! * `fence-redis`: [fences](mod@fence) for data in Redis; on by default.
//! * `fence-mongodb`: [fences](mod@fence) for documents in MongoDB.
//! * `metrics`: counts and durations through the `metrics` façade: see [`Locks`].
//! * `serde`: what users see can be written, and keys, ids and shares can be read.

mod connect;
mod memory;
pub mod registry;

#[doc = include_str!("../FENCING.md")]
pub mod fencing {}

/// What README shows compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

pub use connect::connect;
pub use tenure_core::{
    Block, Counter, CounterValue, Election, Error, ErrorKind, EventDelivery, FaultTolerance,
    Guarantee, Guarantees, Guard, KEY_BYTES_MAX, Key, LINE_TICKETS_MAX, Leader, Leaders,
    LeaseHandle, LeaveOutcome, Liveness, Locks, Loss, MultiGuard, MultiLock, Mutex, NOTE_BYTES_MAX,
    NUMBER_MAX, Note, OWNER_BYTES_MAX, Owner, PERMITS_MAX, Place, Reason, Result, Runtime, RwLock,
    Semaphore, Sequence, Share, TTL_DEFAULT, TTL_MAX, Ticket, TicketId, TicketState,
    TokenDurability, Warning, Watch, WatchEvent, Window, WriteGuard, blocking, event,
};

/// Writes that an old holder cannot make, in the stores where users keep their data, for locks of any store.
pub mod fence {
    /// Writes to MongoDB.
    #[cfg(feature = "fence-mongodb")]
    pub use tenure_fence_mongodb as mongodb;
    /// Writes to Redis.
    #[cfg(feature = "fence-redis")]
    pub use tenure_fence_redis as redis;
}

/// What etcd has beside its locks: [`StillHeld`](etcd::StillHeld) makes a transaction of your own one that is done only while a lock
/// is held.
#[cfg(feature = "etcd")]
pub mod etcd {
    pub use tenure_etcd::StillHeld;
}

/// Settings of the file engine, for [`FileStore`](engine::FileStore).
#[cfg(feature = "file")]
pub mod file {
    pub use tenure_file::Settings;
}

/// MongoDB beside its locks: locks on [documents](mongodb::documents) of your own, and a client that is there already.
#[cfg(feature = "mongodb")]
pub mod mongodb {
    pub use tenure_mongodb::{ClientOptions, Settings, connect_over, connect_with, documents};
}

/// Redis beside its locks: a [`RedLock`](redis::RedLock), and its [`QuorumHealth`](redis::QuorumHealth), which tells how each server answered last.
#[cfg(feature = "redis")]
pub mod redis {
    pub use tenure_core::layers::{NodeHealth, QuorumHealth};
    pub use tenure_redis::RedLock;
}

/// What ZooKeeper has beside its locks: [`StillHeld`](zookeeper::StillHeld) makes a `multi` of your own one that is done only while a
/// lock is held.
#[cfg(feature = "zookeeper")]
pub mod zookeeper {
    pub use tenure_zookeeper::StillHeld;
}

/// For authors of engines, and for those who put engines together themselves.
pub mod engine {
    pub use tenure_core::layers::{
        AnyEngine, Layer, NodeHealth, OnRuntime, Operation, Quorum, QuorumHealth, Retry,
    };
    pub use tenure_core::{
        BackgroundRuntime, BoxFuture, Breaks, Clock, Cost, Engine, Expiry, LeaveMode, Line, Memory,
        Sampler, SystemClock, ThisRuntime, Time, WaitMode, Wake, served,
    };
    pub use tenure_core::{line, wake};
    #[cfg(feature = "file")]
    pub use tenure_file::FileStore;
    pub use tenure_kit as kit;
    #[cfg(feature = "mongodb")]
    pub use tenure_mongodb::MongoStore;
    #[cfg(feature = "redis")]
    pub use tenure_redis::{RedLock, RedisCluster, RedisStore};
}
