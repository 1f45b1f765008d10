//! A lock is a line of tickets. The tickets at the front hold the lock, as many as fit.
//!
//! There are three main types:
//!
//! * An [`Engine`] stores lines of [tickets](Ticket). Its documentation is the contract.
//! * [`Locks`] are all locks of one engine. They make the primitives: [`Mutex`], [`RwLock`],
//!   [`Semaphore`], …
//! * A [`Guard`] is a ticket that holds, until it is released, dropped or lost. Only a guard has a
//!   token.
//!
//! ```
//! # tenure::blocking::block_on(async {
//! let locks = tenure::connect("memory:").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("locked, with token {}", guard.token());
//! guard.release().await?;
//! # Ok::<(), tenure::Error>(()) }).unwrap();
//! ```
//!
//! This crate has no store but [memory](Memory), which is the reference for all engines. It has the
//! contract of an engine, the rules of a lease, and the primitives. Users depend on the crate
//! `tenure`; authors of engines depend on this one. Engines that wrap other engines are in
//! [`layers`].

mod api;
mod background;
mod contract;
pub mod layers;
mod lease;
pub mod line;
mod telemetry;

pub use api::blocking;
pub use api::counter::Counter;
pub use api::election::{Election, Leader, Leaders};
pub use api::guard::{Guard, LeaseHandle, Warning};
pub use api::locks::Locks;
pub use api::multi::{MultiGuard, MultiLock};
pub use api::mutex::Mutex;
pub use api::rwlock::{RwLock, WriteGuard};
pub use api::semaphore::{PERMITS_MAX, Semaphore};
pub use api::sequence::{Block, Sequence};
pub use api::watch::{Watch, WatchEvent};
pub use background::backoff::jitter;
pub use background::runtime::{BackgroundRuntime, BoxFuture, Runtime, ThisRuntime};
pub use background::spawn::spawn_cancellable;
pub use contract::engine::{CounterValue, Engine, Wake, Window};
pub use contract::error::{Error, ErrorKind, Reason, Result};
pub use contract::guarantees::{
    EventDelivery, FaultTolerance, Guarantee, Guarantees, Liveness, TokenDurability,
};
pub use contract::id::TicketId;
pub use contract::key::{KEY_BYTES_MAX, Key};
pub use contract::labels::{NOTE_BYTES_MAX, Note, OWNER_BYTES_MAX, Owner};
pub use contract::share::{SHARE_OF_MAX, Share, served};
pub use contract::stale::{Stale, check_token};
pub use contract::ticket::{
    LINE_TICKETS_MAX, LeaveMode, LeaveOutcome, NUMBER_MAX, Place, Ticket, TicketState, WaitMode,
};
pub use contract::{errors, event};
pub use lease::clock::{Clock, SystemClock, Time};
pub use lease::loss::Loss;
pub use lease::options::{TTL_DEFAULT, TTL_MAX};
pub use line::expiring_map::ExpiringMap;
pub use line::memory::Memory;
pub use line::sample::{Breaks, Cost, Sampler};
pub use line::wake;
pub use line::{Expiry, Line};
