//! A lock is a line of tickets; the front of the line is served, for as long as it fits.
//!
//! From the top, there are three types:
//!
//! * An [`Engine`] keeps lines of [tickets](Ticket) in a store; its documentation is the contract.
//! * [`Locks`] are the locks of one engine, and make the primitives: [`Mutex`], [`RwLock`], [`Semaphore`], …
//! * A [`Guard`] is a ticket that is served, until it is released, dropped or lost; only a guard has a token.
//!
//! ```
//! use tenure_core::{Locks, Memory};
//!
//! # tenure_core::blocking::block_on(async {
//! let locks = Locks::new(Memory::new());
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! guard.release().await?;
//! # Ok::<(), tenure_core::Error>(()) }).unwrap();
//! ```
//!
//! This crate is the idea of Tenure, without any store: the contract of an engine, the rules that a holder
//! lives by, the primitives that users meet, and the [memory](Memory) engine, which is the reference for all
//! others. Users depend on the crate `tenure`; authors of engines depend on this one. Engines that are made of
//! engines are in [`wrap`].

mod all;
pub mod bell;
pub mod blocking;
mod claim;
mod clock;
mod counter;
mod deadline;
mod election;
mod endless;
mod engine;
mod error;
pub mod event;
mod guard;
mod hold;
mod host;
mod keep;
mod kept;
mod key;
mod line;
mod listen;
mod locks;
mod loss;
mod memory;
mod mutex;
mod profile;
pub mod refusal;
mod rwlock;
mod sample;
mod semaphore;
mod sequence;
#[cfg(feature = "serde")]
mod serialized;
mod sweep;
mod sync;
mod terms;
mod ticket;
mod wait;
mod watch;
pub mod wrap;

pub use all::{All, AllGuard};
pub use clock::{Clock, SystemClock, Time};
pub use counter::Counter;
pub use election::{Election, Leader, Leaders};
pub use engine::{Engine, Tally, Wake, Window};
pub use error::{Error, Kind, Result};
pub use guard::{Guard, Held, Warning};
pub use host::{Boxed, Host, PrivateThread, ThisRuntime};
pub use key::{KEY_BYTES_MAX, Key};
pub use line::{Line, Lives, Tell};
pub use locks::Locks;
pub use loss::Loss;
pub use memory::Memory;
pub use mutex::Mutex;
pub use profile::{Fence, Liveness, Need, Profile, Sight, Survives};
pub use rwlock::{RwLock, WriteGuard};
pub use sample::{Cost, Sampler};
pub use semaphore::{PERMITS_MAX, Semaphore};
pub use sequence::{Block, Sequence};
pub use terms::{TTL_DEFAULT, TTL_MAX};
pub use ticket::{
    LINE_TICKETS_MAX, Leave, Left, NOTE_BYTES_MAX, NUMBER_MAX, OWNER_BYTES_MAX, Patience, Place,
    SHARE_OF_MAX, Share, Standing, Ticket, TicketId, served,
};
pub use watch::{Seen, Watch};
