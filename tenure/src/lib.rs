//! Distributed locks that tell when they are lost, with fencing tokens, over the stores people already run.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> tenure::Result<()> {
//! let locks = tenure::connect("memory:").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! guard.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! From the top: [`connect`] gives [`Locks`], the locks of one store. `Locks` makes primitives, such as a
//! [`Mutex`], which are their own builders. A primitive gives a [`Guard`], and only a guard has a token.
//!
//! **No lock can stop a program that does not look.** A program may be paused between its check and its
//! write for longer than any lease. Only a resource that refuses old [tokens](Held::token) is safe from that.

mod connect;

/// What README shows compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

pub use connect::connect;
pub use tenure_core::{
    All, AllGuard, Block, Counter, Election, Error, Fence, Guard, Held, Host, KEY_BYTES_MAX, Key,
    Kind, LINE_TICKETS_MAX, Leader, Leaders, Left, Liveness, Locks, Loss, Mutex, NOTE_BYTES_MAX,
    NUMBER_MAX, Need, OWNER_BYTES_MAX, PERMITS_MAX, Place, Profile, Result, RwLock, Seen,
    Semaphore, Sequence, Share, Sight, Standing, Survives, TTL_DEFAULT, TTL_MAX, Tally, Ticket,
    TicketId, Warning, Watch, Window, WriteGuard, blocking, event,
};

/// Redis beside its locks: writes that a newer holder's token guards, and what a `RedLock` knows of its servers.
#[cfg(feature = "redis")]
pub mod redis {
    pub use tenure_redis::{RedLock, fence};
}

/// For authors of engines, and for those who put engines together themselves.
pub mod engine {
    pub use tenure_core::bell;
    pub use tenure_core::wrap::{AnyEngine, Hosted, Quorum, Retry, Traced};
    pub use tenure_core::{
        Boxed, Clock, Cost, Engine, Leave, Line, Lives, Memory, Patience, PrivateThread, Sampler,
        SystemClock, Tell, ThisRuntime, Time, Wake, served,
    };
    #[cfg(feature = "file")]
    pub use tenure_file::FileStore;
    #[cfg(feature = "redis")]
    pub use tenure_redis::{RedLock, RedisStore};
}
