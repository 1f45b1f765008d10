//! Faults: what becomes of locks when servers fail, answers are lost, and records are changed by
//! hand.
#![cfg(unix)]

#[path = "faults/answers.rs"]
mod answers;
#[path = "faults/clocks.rs"]
mod clocks;
#[path = "faults/costs.rs"]
mod costs;
#[path = "faults/crowds.rs"]
mod crowds;
#[path = "faults/listeners.rs"]
mod listeners;
#[path = "faults/meddling.rs"]
mod meddling;
#[path = "faults/members.rs"]
mod members;
#[path = "faults/network.rs"]
mod network;
#[path = "faults/numbers.rs"]
mod numbers;
#[path = "faults/older.rs"]
mod older;
#[path = "faults/onlookers.rs"]
mod onlookers;
#[path = "faults/pause.rs"]
mod pause;
#[path = "faults/reaping.rs"]
mod reaping;
#[path = "faults/refusals.rs"]
mod refusals;
#[path = "faults/silence.rs"]
mod silence;
#[path = "faults/stage.rs"]
mod stage;
#[path = "faults/storm.rs"]
mod storm;
#[path = "faults/streams.rs"]
mod streams;
#[path = "faults/unreadable.rs"]
mod unreadable;
