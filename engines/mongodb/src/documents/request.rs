//! A request: what a holder asks to be done to what it holds, in words that every home of documents understands.

use std::time::Duration;

use mongodb::bson::Document;
use mongodb::options::UpdateModifications;
use tenure_core::TicketId;

use super::name::Named;

/// What a holder has: its ticket, and those it has around it.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    pub(super) named: Named,
    pub(super) id: TicketId,
    pub(super) around: Vec<(Named, TicketId)>,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Update(UpdateModifications),
    Replace(Document),
    Delete,
    /// An update with which the ticket leaves.
    Leave(UpdateModifications),
    /// The ticket leaves, and nobody claims the document for so long.
    PutOff(Duration),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    Yes,
    /// The ticket does not hold, or there is nothing that it could hold.
    No,
}
