//! Faults: what becomes of locks when servers, connections, rows and clocks fail.
#![cfg(unix)]

#[path = "faults/abandoned.rs"]
mod abandoned;
#[path = "faults/blockers.rs"]
mod blockers;
#[path = "faults/crash.rs"]
mod crash;
#[path = "faults/gremlins.rs"]
mod gremlins;
#[path = "faults/listeners.rs"]
mod listeners;
#[path = "faults/names.rs"]
mod names;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/promotion.rs"]
mod promotion;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/roles.rs"]
mod roles;
#[path = "faults/silence.rs"]
mod silence;
#[path = "faults/sql.rs"]
mod sql;
#[path = "faults/stage.rs"]
mod stage;
