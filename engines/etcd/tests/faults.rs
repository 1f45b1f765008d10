//! Faults: what becomes of locks when members, connections, leases and keys fail.
#![cfg(unix)]

#[path = "faults/costs.rs"]
mod costs;
#[path = "faults/members.rs"]
mod members;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/operators.rs"]
mod operators;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/stage.rs"]
mod stage;
