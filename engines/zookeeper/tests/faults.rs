//! Faults: what becomes of locks when servers, connections, sessions and nodes fail.
#![cfg(unix)]

#[path = "faults/behind.rs"]
mod behind;
#[path = "faults/costs.rs"]
mod costs;
#[path = "faults/crowds.rs"]
mod crowds;
#[path = "faults/followers.rs"]
mod followers;
#[path = "faults/guarded.rs"]
mod guarded;
#[path = "faults/hostile.rs"]
mod hostile;
#[path = "faults/leaders.rs"]
mod leaders;
#[path = "faults/members.rs"]
mod members;
#[path = "faults/neighbours.rs"]
mod neighbours;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/operators.rs"]
mod operators;
#[path = "faults/peers.rs"]
mod peers;
#[path = "faults/processes.rs"]
mod processes;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/runtimes.rs"]
mod runtimes;
#[path = "faults/silence.rs"]
mod silence;
#[path = "faults/stage.rs"]
mod stage;
#[path = "faults/strangers.rs"]
mod strangers;
#[cfg(feature = "tls")]
#[path = "faults/tls.rs"]
mod tls;
