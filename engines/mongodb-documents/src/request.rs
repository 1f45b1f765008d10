//! Requests of a holder, in a form that every backend of documents understands.

use std::time::Duration;

use mongodb::bson::Document;
use mongodb::options::UpdateModifications;
use tenure_core::TicketId;

use crate::name::Named;

/// The held document or part, its ticket, and the tickets around it.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    pub(crate) named: Named,
    pub(crate) id: TicketId,
    pub(crate) around: Vec<(Named, TicketId)>,
}

/// An update of a document or a part: operators or a pipeline, and the array filters of `$[name]`
/// in operators.
///
/// ```
/// use mongodb::bson::doc;
/// use tenure_mongodb_documents::Update;
///
/// let late = Update::new(doc! { "$set": { "lines.$[late].state": "dropped" } })
///     .array_filters([doc! { "late.days": { "$gt": 30 } }]);
/// # drop(late);
/// ```
#[derive(Clone, Debug)]
#[must_use = "an update changes nothing until a guard makes it"]
pub struct Update {
    pub(crate) by: UpdateModifications,
    pub(crate) array_filters: Vec<Document>,
}

impl Update {
    /// Creates an update by operators or by a pipeline.
    pub fn new(update: impl Into<UpdateModifications>) -> Self {
        Self { by: update.into(), array_filters: Vec::new() }
    }

    /// Adds these filters of the elements that `$[name]` means, as in the driver. Filter names that
    /// begin with `tenure` are reserved.
    pub fn array_filters(self, filters: impl IntoIterator<Item = Document>) -> Self {
        Self { array_filters: filters.into_iter().collect(), ..self }
    }
}

impl<T: Into<UpdateModifications>> From<T> for Update {
    fn from(update: T) -> Self {
        Self::new(update)
    }
}

/// An act of a holder.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Update(Update),
    Replace(Document),
    Delete,
    /// An update with which the ticket leaves.
    Leave(Update),
    /// The ticket leaves, and no queue claims the document for this time.
    PutOff(Duration),
}

/// The outcome of an act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Yes,
    /// The ticket does not hold, or the document or part does not exist.
    No,
}
