//! Locks on documents: the writes of holders, and what becomes of locks when other programs change
//! the document.
#![cfg(unix)]

#[path = "document_cases/changes.rs"]
mod changes;
#[path = "document_cases/guards.rs"]
mod guards;
#[path = "document_cases/holders.rs"]
mod holders;
#[path = "document_cases/idle.rs"]
mod idle;
#[path = "document_cases/listeners.rs"]
mod listeners;
#[path = "document_cases/memory.rs"]
mod memory;
#[path = "document_cases/numbers.rs"]
mod numbers;
#[path = "document_cases/openings.rs"]
mod openings;
#[path = "document_cases/parts.rs"]
mod parts;
#[path = "document_cases/poison.rs"]
mod poison;
#[path = "document_cases/put_off.rs"]
mod put_off;
#[path = "document_cases/questions.rs"]
mod questions;
#[path = "document_cases/queues.rs"]
mod queues;
#[path = "document_cases/shop.rs"]
mod shop;
#[path = "../../mongodb/tests/faults/stage.rs"]
#[allow(dead_code, reason = "named locks need more of it")]
mod stage;
#[path = "../../mongodb/tests/faults/storm.rs"]
mod storm;
#[path = "document_cases/strangers.rs"]
mod strangers;
