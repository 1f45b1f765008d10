//! Stories that every engine with a server must survive: its tests bring the servers and the trouble.

pub mod members;
pub mod network;
pub mod unreadable;
