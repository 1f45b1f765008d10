//! Distributed locks with fencing tokens that report their loss, over files, Redis, MongoDB, etcd
//! or ZooKeeper.
//!
//! There are three kinds of types:
//!
//! * [`Locks`] are the locks of one store. [`connect()`] returns them.
//! * A primitive is one lock, such as a [`Mutex`]. `Locks` creates it, and it is its own builder.
//! * A guard, such as [`MutexGuard`], is a held lock, until it is released, dropped or lost. Only
//!   the guard of an exclusive lock has a [`Token`].
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
//! | need | type |
//! |---|---|
//! | one holder at a time | [`Mutex`] |
//! | many readers or one writer | [`RwLock`]; its writer is the mutex of the same key |
//! | at most k holders | [`Semaphore`] |
//! | several locks at once, without deadlock | [`MultiLock`] |
//! | one leader | [`Election`] |
//! | unique numbers | [`Sequence`] |
//! | a rate limit | [`Counter`] |
//! | holders, waiters, events | [`Locks::line`], [`Locks::keys`], [`Locks::watch_prefix`] |
//! | to end the hold of another program | [`Locks::break_ticket`] |
//! | writes no old holder can make | [`fencing`], `postgres::HoldIn`, `mysql::HoldIn`, `etcd::StillHeld`, `zookeeper::StillHeld` |
//! | no async | [`Locks::blocking`] |
//!
//! All futures that acquire a lock are `Send` and `'static`, so `tokio::spawn` accepts them. They
//! are cancel-safe: a dropped future leaves its line. They need no particular runtime.
//!
//! **No lock can stop a program that does not check it.** A program may be paused between its check
//! and its write for longer than any lease. Only a resource that refuses old
//! [tokens](Token) is safe from that. [`fencing`] says which tokens it may refuse.
//!
//! [`connect()`] takes a URL. `redis::Settings`, `etcd::Settings`, `zookeeper::Settings`,
//! `mongodb::Settings`, `mysql::Settings`, `postgres::Settings` and `file::Settings` are settings
//! in code.
//!
//! # Features
//!
//! * `file`, `redis`: these engines; both are on by default.
//! * `mongodb`, `mysql`, `postgres`, `etcd`, `zookeeper`: these engines, which have large
//!   dependencies.
//! * `zookeeper-tls`: `zookeepers://`. The client of ZooKeeper brings a second provider of
//!   cryptography (aws-lc) beside ring. A program that builds its own rustls configurations then
//!   has to choose the provider explicitly.
//! * `all`: all engines, as the command `tenure` has them.
//! * `fence-redis`: [fences](mod@fence) for data in Redis; on by default.
//! * `fence-mongodb`: [fences](mod@fence) for documents in MongoDB.
//! * `fence-mysql`: [fences](mod@fence) for tables in MariaDB and MySQL.
//! * `fence-postgres`: [fences](mod@fence) for tables in PostgreSQL.
//! * `serve`: a page and an HTTP API that show the locks and end a hold safely, as a
//!   `tower::Service`.
//! * `metrics`: counts and durations through the `metrics` façade: see [`Locks`].
//! * `serde`: public data types implement `Serialize`; keys, ids and shares implement
//!   `Deserialize`.

mod connect;
mod memory;
#[doc(hidden)] // For the command `tenure` alone. Not a part of the public API.
pub mod registry;

#[doc = include_str!("../FENCING.md")]
pub mod fencing {}

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

pub use connect::connect;
pub use tenure_core::{
    Block, Counter, CounterValue, Election, Error, ErrorKind, Key, Leadership, LeaseHandle, Locks,
    Loss, MultiGuard, MultiLock, Mutex, MutexGuard, Once, OnceOutcome, Permit, ReadGuard, Reason,
    Result, RwLock, Semaphore, Sequence, SlotAttempt, SlotRun, SlotStart, SlotState, Token, Window,
    WriteGuard, blocking,
};
#[cfg(feature = "serve")]
pub use tenure_serve::serve;

/// The content of a store: the tickets of a line, its events, its leader.
pub mod inspect {
    pub use tenure_core::event::{Cursor, Event, EventBatch, EventKind, Scope};
    pub use tenure_core::toolbox::known_keys;
    pub use tenure_core::{
        Leader, Leaders, LeaveOutcome, LineEntry, Note, Owner, Place, Share, Ticket, TicketId,
        TicketState, Warning, Watch, WatchEvent,
    };
}

/// The guarantees that a store gives, for [`Locks::guarantees`] and [`Locks::require`].
pub mod guarantees {
    pub use tenure_core::{
        EventDelivery, FaultTolerance, Guarantee, Guarantees, Liveness, TokenDurability,
    };
}

/// The maximum size of each thing, and the default ttl.
pub mod limits {
    pub use tenure_core::{
        KEY_BYTES_MAX, LINE_TICKETS_MAX, NOTE_BYTES_MAX, NUMBER_MAX, NUMBERED_PERMITS_MAX,
        OWNER_BYTES_MAX, PERMITS_MAX, SLOT_BYTES_MAX, SLOTS_MAX, TTL_DEFAULT, TTL_MAX,
        VALUE_BYTES_MAX,
    };
}

/// More of [`serve()`]: roles, visitors, the records of breaks and locks, and a server for programs
/// without one.
#[cfg(feature = "serve")]
pub mod serve {
    pub use tenure_serve::{
        BreakRecord, BreakResult, CONNECTIONS_MAX, ClientAddress, HttpServer, LockAction,
        LockRecord, Mounts, ReplyBody, Role, STREAMS_MAX, Serve, Visitor, WrongTokenRecord,
    };
}

/// Fences: guarded writes to your own data in Redis, MongoDB, MariaDB, MySQL or PostgreSQL, for
/// locks of any store.
pub mod fence {
    /// Writes to MongoDB.
    #[cfg(feature = "fence-mongodb")]
    pub use tenure_fence_mongodb as mongodb;
    /// Writes to MariaDB and MySQL.
    #[cfg(feature = "fence-mysql")]
    pub use tenure_fence_mysql as mysql;
    /// Writes to PostgreSQL.
    #[cfg(feature = "fence-postgres")]
    pub use tenure_fence_postgres as postgres;
    /// Writes to Redis.
    #[cfg(feature = "fence-redis")]
    pub use tenure_fence_redis as redis;
}

/// More of etcd: [`Settings`](etcd::Settings) connect without a URL.
/// [`StillHeld`](etcd::StillHeld) makes a transaction of your own depend on a held lock.
#[cfg(feature = "etcd")]
pub mod etcd {
    pub use tenure_etcd::{Pem, Settings, StillHeld, Tls};
}

/// More of the file engine: the settings of a [`FileStore`](engine::FileStore).
#[cfg(feature = "file")]
pub mod file {
    pub use tenure_file::Settings;
}

/// More of MongoDB: locks on your own [documents](mongodb::documents), and locks over a client that
/// you already have.
#[cfg(feature = "mongodb")]
pub mod mongodb {
    pub use tenure_mongodb::{ClientOptions, Settings, connect_over, connect_with};
    pub use tenure_mongodb_documents as documents;
}

/// More of MariaDB and MySQL: [`Settings`](mysql::Settings) connect without a URL.
/// [`HoldIn`](mysql::HoldIn) keeps the successor out until a transaction of your own has ended.
#[cfg(feature = "mysql")]
pub mod mysql {
    pub use tenure_mysql::{HeldLine, HoldIn, Pem, Settings, Tls, mysql_async};
}

/// More of PostgreSQL: [`Settings`](postgres::Settings) connect without a URL.
/// [`HoldIn`](postgres::HoldIn) keeps the successor out until a transaction of your own has ended.
#[cfg(feature = "postgres")]
pub mod postgres {
    pub use tenure_postgres::{
        HeldLine, HoldIn, Pem, Settings, Tls, tokio_postgres, transaction_lock,
        transaction_lock_number, try_transaction_lock,
    };
}

/// More of Redis: [`Settings`](redis::Settings) connect without a URL. A
/// [`RedLock`](redis::RedLock) has a [`QuorumHealth`](redis::QuorumHealth) with the last answer of
/// each server.
#[cfg(feature = "redis")]
pub mod redis {
    pub use tenure_redis::{AfterRestart, Pem, RedLock, Settings, Tls};
    pub use tenure_redlock::{NodeHealth, QuorumHealth};
}

/// More of ZooKeeper: [`Settings`](zookeeper::Settings) connect without a URL.
/// [`StillHeld`](zookeeper::StillHeld) makes a `multi` of your own depend on a held lock.
#[cfg(feature = "zookeeper")]
pub mod zookeeper {
    pub use tenure_zookeeper::{AclOwner, Pem, Settings, StillHeld, Tls};
}

/// The contract of an engine, some engines, and the layers around them. Engines over a server also
/// use the crate `tenure-kit`.
pub mod engine {
    pub use tenure_core::layers::{AnyEngine, Layer, OnRuntime, Operation, Retries, Retry};
    pub use tenure_core::toolbox::incomplete;
    pub use tenure_core::{
        BackgroundRuntime, Backoff, BoxFuture, Breaks, Clock, Engine, Expiry, LeaveMode, Line,
        Memory, Runtime, Sampler, SystemClock, ThisRuntime, Time, WaitMode, Wake, served,
    };
    pub use tenure_core::{line, wake};
    #[cfg(feature = "file")]
    pub use tenure_file::FileStore;
    #[cfg(feature = "mongodb")]
    pub use tenure_mongodb::MongoStore;
    #[cfg(feature = "redis")]
    pub use tenure_redis::{RedLock, RedisCluster, RedisStore};
    #[cfg(feature = "redis")]
    pub use tenure_redlock::{NodeHealth, Quorum, QuorumHealth};
}
