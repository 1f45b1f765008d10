//! Read results: the documents that tickets have read in the step in which they were served, until
//! their owners take them.

use std::collections::HashMap;
use std::sync::MutexGuard;

use mongodb::bson::Document;
use tenure_core::TicketId;
use tenure_core::sync::Mutex;

/// Maximum documents that are kept. An owner that finds none reads again.
const DOCUMENTS_MAX: usize = 1024;

/// The documents that wait for their owners.
#[derive(Default)]
pub(crate) struct ReadResults(Mutex<HashMap<TicketId, Document>>);

impl ReadResults {
    /// Stores the document that the ticket has read.
    pub(crate) fn put(&self, id: TicketId, document: Document) {
        let mut documents = self.documents();
        if documents.len() < DOCUMENTS_MAX {
            documents.insert(id, document);
        }
    }

    /// Takes the document that the ticket has read.
    pub(crate) fn take(&self, id: TicketId) -> Option<Document> {
        self.documents().remove(&id)
    }

    fn documents(&self) -> MutexGuard<'_, HashMap<TicketId, Document>> {
        self.0.lock()
    }
}
