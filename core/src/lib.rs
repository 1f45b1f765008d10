//! A lock is a line of tickets; the front of the line is served, for as long as it fits.
//!
//! This crate is the idea of Tenure, without any store: the contract of an [`Engine`], the rules
//! that a holder lives by, the primitives that users meet, and the memory engine, which is the
//! reference for all others. Users depend on the crate `tenure`; authors of engines depend on this one.

mod clock;
mod engine;
mod error;
pub mod event;
mod host;
mod key;
mod line;
mod loss;
mod profile;
mod ticket;

pub use clock::{Clock, SystemClock, Time};
pub use engine::{Engine, Tally, Wake, Window};
pub use error::{Error, Kind, Result};
pub use host::{Boxed, Host, PrivateThread};
pub use key::{KEY_BYTES_MAX, Key};
pub use line::{Line, Lives, Tell};
pub use loss::Loss;
pub use profile::{Fence, Liveness, Need, Profile, Sight, Survives};
pub use ticket::{
    LINE_TICKETS_MAX, Leave, Left, NOTE_BYTES_MAX, NUMBER_MAX, OWNER_BYTES_MAX, Patience, Place,
    SHARE_OF_MAX, Share, Standing, Ticket, TicketId, served,
};
