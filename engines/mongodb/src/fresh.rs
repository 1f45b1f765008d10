//! A fresh record: how its first number is above every number that was given before its line lost them.
//!
//! A command goes by the server's clock at the moment it begins (`$$NOW`), and may have to wait. A record that is deleted meanwhile
//! takes along its last number, which may be greater. So a command that finds no number in a record, or makes the record, puts no
//! ticket into it: it leaves a random name in the field `made`. The first number is given by a command that knows this name: it
//! began after the record was there, and so its clock is ahead of all numbers before.

use std::time::Duration;

use mongodb::bson::{Document, RawDocumentBuf, cstr};
use tenure_core::TicketId;
use tokio::time::sleep;

/// The server's clock has whole milliseconds: a command that begins this much later has another one.
const CLOCK_STEP: Duration = Duration::from_millis(1);

/// What a join says of a fresh record.
pub(crate) struct Fresh {
    /// The name that a fresh record gets from this join, unless it has one.
    name: TicketId,
    /// The fresh record that an answer has named.
    seen: String,
}

impl Fresh {
    /// A join to which no fresh record is known.
    pub(crate) fn new() -> Self {
        Self { name: TicketId::fresh(), seen: String::new() }
    }

    /// The name that a fresh record gets.
    pub(crate) fn name(&self) -> String {
        self.name.to_string()
    }

    /// The name of the fresh record that an answer has named, or nothing.
    pub(crate) fn seen(&self) -> &str {
        &self.seen
    }

    /// Adds both names to what a command asks for.
    pub(crate) fn name_in(&self, ask: &mut RawDocumentBuf) {
        ask.append(cstr!("made"), self.name());
        ask.append(cstr!("seen"), self.seen.as_str());
    }

    /// Returns whether the answer of a record says that it is fresh. If it does, a command that is sent now may give the first number.
    pub(crate) async fn sees(&mut self, answer: Option<&Document>) -> bool {
        let Some(Ok(made)) = answer.map(|answer| answer.get_str("made")) else { return false };
        made.clone_into(&mut self.seen);
        sleep(CLOCK_STEP).await;
        true
    }
}
