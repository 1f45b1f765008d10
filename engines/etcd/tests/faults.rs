//! Faults: what becomes of locks when members, connections, leases and keys fail.
#![cfg(unix)]

#[path = "faults/between.rs"]
mod between;
#[path = "faults/costs.rs"]
mod costs;
#[path = "faults/crowds.rs"]
mod crowds;
#[path = "faults/disks.rs"]
mod disks;
#[path = "faults/guarded.rs"]
mod guarded;
#[path = "faults/hurry.rs"]
mod hurry;
#[path = "faults/lies.rs"]
mod lies;
#[path = "faults/majority.rs"]
mod majority;
#[path = "faults/members.rs"]
mod members;
#[path = "faults/names.rs"]
mod names;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/operators.rs"]
mod operators;
#[path = "faults/processes.rs"]
mod processes;
#[path = "faults/proxied.rs"]
mod proxied;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/runtimes.rs"]
mod runtimes;
#[path = "faults/silence.rs"]
mod silence;
#[path = "faults/stage.rs"]
mod stage;
#[path = "faults/swept.rs"]
mod swept;
#[path = "faults/tls.rs"]
mod tls;
#[path = "faults/turns.rs"]
mod turns;
#[path = "faults/twice.rs"]
mod twice;
#[path = "faults/users.rs"]
mod users;
