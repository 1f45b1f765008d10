//! A fresh record: its first number must exceed every number that the line gave before it was lost.
//!
//! A command uses the server's clock at the moment it begins (`$$NOW`), and may then wait for
//! another write. If the record is deleted meanwhile, its last number is lost, and may be greater
//! than that clock. So a command that inserts the record, or finds no number in it, adds no ticket.
//! It writes a random name into the field `made`. Only a command that names it gives the first
//! number. That command began when the record existed, so its clock is ahead of all earlier
//! numbers.

use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, cstr};
use tenure_core::TicketId;
use tokio::time::sleep;

/// Resolution of the server's clock: a command that begins this much later has a later clock.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// The names of fresh records that a join sends.
pub(crate) struct Fresh {
    /// The name that this join gives to a fresh record without one.
    name: TicketId,
    /// The fresh record that an answer has named.
    seen: String,
}

impl Fresh {
    /// The names of a join that knows no fresh record.
    pub(crate) fn new() -> Self {
        Self::named(TicketId::fresh())
    }

    /// The same with this name for a fresh record.
    pub(crate) fn named(name: TicketId) -> Self {
        Self { name, seen: String::new() }
    }

    /// Adds both names to the arguments of a command.
    pub(crate) fn name_in(&self, ask: &mut RawDocumentBuf) {
        ask.append(cstr!("made"), self.name.to_string());
        ask.append(cstr!("seen"), self.seen.as_str());
    }

    /// Notes the fresh record that an answer names. A command that is sent now may give its first
    /// number.
    pub(crate) async fn see(&mut self, answer: Option<&Document>) {
        let made = answer.and_then(|answer| answer.get_str("made").ok());
        made.unwrap_or_default().clone_into(&mut self.seen);
        sleep(CLOCK_STEP).await;
    }
}
