//! Faults: what becomes of locks when servers, connections and rows fail.
#![cfg(unix)]

#[path = "faults/blockers.rs"]
mod blockers;
#[path = "faults/crash.rs"]
mod crash;
#[path = "faults/crowds.rs"]
mod crowds;
#[path = "faults/full_disk.rs"]
mod full_disk;
#[path = "faults/held_line.rs"]
mod held_line;
#[path = "faults/listeners.rs"]
mod listeners;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/other_server.rs"]
mod other_server;
#[path = "faults/promotion.rs"]
mod promotion;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/sessions.rs"]
mod sessions;
#[path = "faults/silence.rs"]
mod silence;
#[path = "faults/sql.rs"]
mod sql;
#[path = "faults/stage.rs"]
mod stage;
#[path = "faults/transaction.rs"]
mod transaction;
