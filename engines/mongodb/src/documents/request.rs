//! Requests: what a holder asks to be done to what it holds, in words that every home of documents
//! understands.

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

/// An update of a document or a part: operators or a pipeline, and the elements that `$[name]` in
/// operators means.
///
/// ```
/// use mongodb::bson::doc;
/// use tenure_mongodb::documents::Update;
///
/// let late = Update::new(doc! { "$set": { "lines.$[late].state": "dropped" } })
///     .array_filters([doc! { "late.days": { "$gt": 30 } }]);
/// # drop(late);
/// ```
#[derive(Clone, Debug)]
#[must_use = "an update changes nothing until a guard makes it"]
pub struct Update {
    pub(super) by: UpdateModifications,
    pub(super) array_filters: Vec<Document>,
}

impl Update {
    /// An update by operators or by a pipeline.
    pub fn new(update: impl Into<UpdateModifications>) -> Self {
        Self { by: update.into(), array_filters: Vec::new() }
    }

    /// The same with these filters of the elements that `$[name]` means, as the driver has them.
    /// Names of filters that begin with `tenure` are reserved.
    pub fn array_filters(self, filters: impl IntoIterator<Item = Document>) -> Self {
        Self { array_filters: filters.into_iter().collect(), ..self }
    }
}

impl<T: Into<UpdateModifications>> From<T> for Update {
    fn from(update: T) -> Self {
        Self::new(update)
    }
}

/// What is to be done.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Update(Update),
    Replace(Document),
    Delete,
    /// An update with which the ticket leaves.
    Leave(Update),
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
