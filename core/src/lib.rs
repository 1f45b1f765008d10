//! A lock is a line of tickets; the front of the line is served, for as long as it fits.
//!
//! From the top, there are three types:
//!
//! * An [`Engine`] keeps lines of [tickets](Ticket) in a store; its documentation is the contract.
//! * [`Locks`] are the locks of one engine, and make the primitives: [`Mutex`], [`RwLock`], [`Semaphore`], …
//! * A [`Guard`] is a ticket that is served, until it is released, dropped or lost; only a guard has a token.
//!
//! ```
//! # tenure::blocking::block_on(async {
//! let locks = tenure::connect("memory:").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! guard.release().await?;
//! # Ok::<(), tenure::Error>(()) }).unwrap();
//! ```
//!
//! This crate is the idea of Tenure, without any store: the contract of an engine, the rules that a holder
//! lives by, the primitives that users meet, and the [memory](Memory) engine, which is the reference for all
//! others. Users depend on the crate `tenure`; authors of engines depend on this one. Engines that are made of
//! engines are in [`wrap`].

mod belief;
mod contract;
mod keeping;
pub mod line;
mod primitives;
mod telemetry;
pub mod wrap;

pub use belief::clock::{Clock, SystemClock, Time};
pub use belief::loss::Loss;
pub use belief::terms::{TTL_DEFAULT, TTL_MAX};
pub use contract::engine::{Engine, CounterValue, Wake, Window};
pub use contract::error::{Error, ErrorKind, Result};
pub use contract::id::TicketId;
pub use contract::key::{KEY_BYTES_MAX, Key};
pub use contract::profile::{TokenDurability, Liveness, Guarantee, Guarantees, EventDelivery, FaultTolerance};
pub use contract::share::{SHARE_OF_MAX, Share, served};
pub use contract::stale::{Stale, check_token};
pub use contract::ticket::{
    LINE_TICKETS_MAX, LeaveMode, LeaveOutcome, NUMBER_MAX, WaitMode, Place, TicketState, Ticket,
};
pub use contract::words::{NOTE_BYTES_MAX, Note, OWNER_BYTES_MAX, Owner};
pub use contract::{event, refusal};
pub use keeping::errand::spawn_cancellable;
pub use keeping::host::{BoxFuture, Runtime, BackgroundRuntime, ThisRuntime};
pub use keeping::uneven::jitter;
pub use line::bell;
pub use line::memory::Memory;
pub use line::recent::ExpiringMap;
pub use line::sample::{Breaks, Cost, Sampler};
pub use line::{Line, Expiry};
pub use primitives::all::{MultiLock, MultiGuard};
pub use primitives::blocking;
pub use primitives::counter::Counter;
pub use primitives::election::{Election, Leader, Leaders};
pub use primitives::guard::{Guard, LeaseHandle, Warning};
pub use primitives::locks::Locks;
pub use primitives::mutex::Mutex;
pub use primitives::rwlock::{RwLock, WriteGuard};
pub use primitives::semaphore::{PERMITS_MAX, Semaphore};
pub use primitives::sequence::{Block, Sequence};
pub use primitives::watch::{WatchEvent, Watch};
