//! A store: the engine of a collection, and the places of the lines in its documents.

use std::ops::Range;
use std::sync::Arc;

use mongodb::Client;
use tenure_core::layers::AnyEngine;
use tenure_core::{Clock as _, Error, Key, Place, Reason, Result, SystemClock, Ticket, Time};
use tenure_mongodb::extension::{CommandSender, Extension, read_url};
use tenure_mongodb::{MongoStore, Settings};
use tokio::runtime::Handle;

use crate::letters::letters;
use crate::locations::Locations;
use crate::opening;
use crate::settings::Documents;
use crate::text::comparable;
use crate::view::DocumentView;

/// A collection of documents with locks. The runtime that it was opened in drives it.
pub(crate) struct DocumentStore {
    pub(crate) engine: MongoStore,
    pub(crate) commands: Arc<CommandSender>,
    pub(crate) locations: Locations,
}

impl DocumentStore {
    /// Connects to the servers that the URL names.
    pub(crate) async fn connect(url: &str, documents: &Documents) -> Result<Self> {
        let (options, settings) = read_url(url).await?;
        let settings = documents.settings_of_url(settings)?;
        let engine = MongoStore::extended(options, &settings, extension(documents)).await?;
        Self::of(engine, documents).await
    }

    /// Opens the collection over a client of the program's own, which `runtime` drives.
    pub(crate) async fn over(
        client: Client,
        runtime: Handle,
        settings: &Settings,
        documents: &Documents,
    ) -> Result<Self> {
        let extension = extension(documents);
        let engine = MongoStore::extended_over(client, runtime, settings, extension).await?;
        Self::of(engine, documents).await
    }

    async fn of(engine: MongoStore, documents: &Documents) -> Result<Self> {
        let commands = engine.commands().clone();
        commands.repeated(|| opening::check(&commands, &documents.field)).await?;
        let locations = Locations::new(&documents.field, documents.filling.as_ref());
        Ok(Self { engine, commands, locations })
    }

    /// Renews the ticket in the line of its document.
    pub(crate) async fn renew(&self, ticket: &Ticket) -> Result<Option<Place>> {
        self.locations.document_claims.renew(ticket.id, self.life(ticket));
        let renewed = self.engine.renew_at(&self.locations.of(ticket)?, ticket).await?;
        if renewed.is_none() {
            self.locations.forget(ticket.id);
        }
        Ok(renewed)
    }

    /// Returns the time in which a ticket lives that is sent now: the server may carry the command
    /// out until its timeout.
    pub(crate) fn life(&self, ticket: &Ticket) -> Range<Time> {
        let now = SystemClock.now();
        now..now.plus(self.commands.timeout.saturating_add(ticket.ttl))
    }
}

impl Documents {
    /// Opens the engine under the locks on documents. Its keys are those of
    /// [`DocumentLock::key`](crate::DocumentLock::key). The URL names the collection.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub async fn engine(&self, url: &str) -> Result<AnyEngine> {
        let store = DocumentStore::connect(url, self).await?;
        Ok(AnyEngine::new(DocumentView::new(store, self.reads.clone())))
    }
}

fn extension(documents: &Documents) -> Extension {
    let field = documents.field.clone();
    Extension { letters: Box::new(move |inbox| letters(inbox, &field)), name: comparable }
}

/// The error if there is no document or part to lock.
pub(crate) fn no_document(collection: &str, key: &Key) -> Error {
    Error::rejected(format!(
        "there is no document {key} in the collection {collection}: insert it first, or have it inserted by `or_insert`"
    ))
    .with_reason(Reason::DocumentNotFound)
}
