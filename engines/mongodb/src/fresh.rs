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
        Self { name: TicketId::fresh(), seen: String::new() }
    }

    /// Returns the name that this join gives to a fresh record.
    pub(crate) fn name(&self) -> String {
        self.name.to_string()
    }

    /// Returns the name of the fresh record in the last answer, or an empty text.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Adds both names to the arguments of a command.
    pub(crate) fn name_in(&self, ask: &mut RawDocumentBuf) {
        ask.append(cstr!("made"), self.name());
        ask.append(cstr!("seen"), self.seen.as_str());
    }

    /// Returns whether the answer to a join says that the record is fresh. If so, a command that is
    /// sent now may give the first number.
    pub(crate) async fn sees(&mut self, answer: Option<&Document>) -> bool {
        let Some(Ok(made)) = answer.map(|answer| answer.get_str("made")) else { return false };
        made.clone_into(&mut self.seen);
        sleep(CLOCK_STEP).await;
        true
    }
}
