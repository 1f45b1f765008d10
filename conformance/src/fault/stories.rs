//! Fault tests that every engine with a server must pass. Its tests bring the servers and the
//! faults.

pub mod exclusion;
pub mod members;
pub mod network;
pub mod sql;
pub mod unreadable;
