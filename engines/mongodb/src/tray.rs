//! A tray: the documents that tickets have read in the step in which they were served, until their
//! owners take them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mongodb::bson::Document;
use tenure_core::TicketId;

use crate::wish::{Reads, Wish};

/// Maximum documents in a tray. An owner that finds none reads again.
const DOCUMENTS_MAX: usize = 1024;

/// The documents that wait for their owners.
#[derive(Default)]
pub(crate) struct Tray(Mutex<HashMap<TicketId, Document>>);

impl Tray {
    /// Stores the document that the ticket of this wish has read, if the wish asked for it.
    pub(crate) fn put(&self, wish: &Wish, document: &Document) {
        let mut documents = self.documents();
        if wish.reads != Reads::Nothing && documents.len() < DOCUMENTS_MAX {
            documents.insert(wish.ticket.id, document.clone());
        }
    }

    /// Takes the document that the ticket has read.
    pub(crate) fn take(&self, id: TicketId) -> Option<Document> {
        self.documents().remove(&id)
    }

    fn documents(&self) -> MutexGuard<'_, HashMap<TicketId, Document>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
