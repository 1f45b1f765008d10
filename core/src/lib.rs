//! A lock is a line of tickets. The tickets at the front hold the lock, as many as fit.
//!
//! There are three main types:
//!
//! * An [`Engine`] stores lines of [tickets](Ticket). Its documentation is the contract.
//! * [`Locks`] are all locks of one engine. They make the primitives: [`Mutex`], [`RwLock`],
//!   [`Semaphore`], …
//! * A guard, such as [`MutexGuard`], is a ticket that holds, until it is released, dropped or
//!   lost. Only the guard of an exclusive lock has a token.
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
//! [`layers`], and further parts for authors of engines in [`toolbox`].

mod api;
mod background;
mod contract;
pub mod layers;
mod lease;
pub mod line;
mod memory;
pub mod sync;
pub mod toolbox;

pub use api::blocking;
pub use api::counter::Counter;
pub use api::election::{Election, Leader, Leaders};
pub use api::guard::{Leadership, MutexGuard, Permit, ReadGuard, WriteGuard};
pub use api::lease_handle::{LeaseHandle, Warning};
pub use api::locks::Locks;
pub use api::multi::{MultiGuard, MultiLock};
pub use api::mutex::Mutex;
pub use api::once::attempt::SlotAttempt;
pub use api::once::history::{SLOT_BYTES_MAX, SLOTS_MAX, SlotRun, SlotState};
pub use api::once::{Once, OnceOutcome, SlotStart};
pub use api::permit_numbers::NUMBERED_PERMITS_MAX;
pub use api::rwlock::RwLock;
pub use api::semaphore::{PERMITS_MAX, Semaphore};
pub use api::sequence::{Block, Sequence};
pub use api::watch::{Watch, WatchEvent};
pub use background::backoff::{Backoff, jitter};
pub use background::runtime::{BackgroundRuntime, BoxFuture, Runtime, ThisRuntime};
pub use background::spawn::spawn_cancellable;
pub use contract::engine::{CounterValue, Engine, VALUE_BYTES_MAX, Wake, Window};
pub use contract::error::{Error, ErrorKind, Reason, Result};
pub use contract::guarantees::{
    EventDelivery, FaultTolerance, Guarantee, Guarantees, Liveness, TokenDurability,
};
pub use contract::id::TicketId;
pub use contract::key::{KEY_BYTES_MAX, Key};
pub use contract::labels::{NOTE_BYTES_MAX, Note, OWNER_BYTES_MAX, Owner};
pub use contract::line_entry::LineEntry;
pub use contract::loss::Loss;
pub use contract::share::{SHARE_OF_MAX, Share, served};
pub use contract::stale::Stale;
pub use contract::ticket::{
    LINE_TICKETS_MAX, LeaveMode, LeaveOutcome, NUMBER_MAX, Place, TTL_DEFAULT, TTL_MAX, Ticket,
    TicketState, WaitMode,
};
pub use contract::token::Token;
pub use contract::{errors, event};
pub use lease::clock::{Clock, SystemClock, Time};
pub use line::{Expiry, Line};
pub use memory::Memory;
pub use sync::wake;
pub use toolbox::expiring_map::ExpiringMap;
pub use toolbox::sampler::{Breaks, Sampler};
