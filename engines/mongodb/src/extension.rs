//! The extension point of this engine: lines that are kept elsewhere than in records of Tenure's
//! own. A place is a filter, a prefix of fields, the fields to read, and whether a lock may insert.
//!
//! The crate `tenure-mongodb-documents` builds locks on documents on it. It is no part of the
//! public API, and changes without notice.

use std::sync::Arc;

use mongodb::Client;
use mongodb::bson::{Bson, Document, RawDocumentBuf};
use mongodb::options::ClientOptions;
use tenure_core::{Error, Key, Place, Result, Ticket, TicketId};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

pub use crate::RETRIES;
pub use crate::answer::whole;
pub use crate::call::Calls;
pub use crate::count::millis;
pub use crate::feed::{Consumer, Feed, Hears, Listening, Wants};
pub use crate::field_prefix::{FieldPrefix, Refusal, Way, scratch};
pub use crate::line::{Steps, raw};
pub use crate::location::{CompiledPipelines, Location};
pub use crate::projection::{Projections, Reply};
pub use crate::readable::{
    has_empty_line, has_readable_line, may_have_line, number, unless_foreign,
};
pub use crate::request::Reads;
pub use crate::trouble::{is_about_one, other_id};
pub use crate::url::read as read_url;

use crate::answer::{self, Outcome};
use crate::bundle;
use crate::call::Update;
use crate::connect;
use crate::fresh::Fresh;
use crate::name::Name;
use crate::request::Verb;
use crate::settings::Settings;
use crate::store::MongoStore;
use crate::trouble;

/// The differences between documents and records of the engine's own.
pub struct Extension {
    /// Returns the filter for the changes that carry letters for this inbox, in the field `notices`.
    pub letters: Box<dyn Fn(&str) -> Wants + Send + Sync>,
    /// Returns the name of a document from its `_id`, as [`Location::document`] has it.
    pub name: fn(&Bson) -> String,
}

/// The outcome of a join.
pub enum Joined {
    /// The ticket stands in the line. If it holds, it may have read the document.
    In(Place, Option<Document>),
    /// It would have to wait.
    Busy,
    /// There is no document, and none may be inserted.
    Nowhere,
}

impl MongoStore {
    /// Connects with these options of the driver.
    #[doc(hidden)]
    pub async fn extended(
        options: ClientOptions,
        settings: &Settings,
        extension: Extension,
    ) -> Result<Self> {
        let (client, name) = connect::client(options, settings.timeout)?;
        Self::of(client, name, Handle::current(), settings, true, Some(extension)).await
    }

    /// Opens the store over a client of the program's own, which `home` drives.
    #[doc(hidden)]
    pub async fn extended_over(
        client: Client,
        home: Handle,
        settings: &Settings,
        extension: Extension,
    ) -> Result<Self> {
        Self::of(client, Name::unknown(), home, settings, false, Some(extension)).await
    }

    /// Returns the commands of the collection.
    #[doc(hidden)]
    pub fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    /// Returns the change stream of the collection.
    #[doc(hidden)]
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Adds warnings to the guarantees.
    #[doc(hidden)]
    pub fn warn(&mut self, warnings: Vec<String>) {
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        self.profile.warnings.extend(warnings);
    }

    /// Joins the empty line of any document that the place finds, in this order, and reads the
    /// document with its `_id`. The stage comes last. Returns `None` if there is no such document.
    #[doc(hidden)]
    pub async fn join_any(
        &self,
        any: &Location,
        ticket: &Ticket,
        last: RawDocumentBuf,
        sort: Option<&Document>,
        reads: &Reads,
    ) -> Result<Option<(Place, Document)>> {
        let alone = any.kit.alone.as_ref().ok_or_else(|| self.calls.strange())?;
        let joins = alone.join(ticket, self.lanes.inbox(), &Fresh::new());
        let update = Update {
            filter: &any.filter,
            filling: None,
            first: joins.first,
            stages: [joins.stages, &[last], &[]],
            fields: with_id(any.kit.answers.of_alone(reads)),
            makes: false,
            expects: RawDocumentBuf::new(),
            sort,
        };
        let Some(answer) = self.calls.update(&update).await? else { return Ok(None) };
        let opened = any.kit.answers.open_alone(answer);
        match answer::alone(&opened.said, Verb::Join { hurry: true }) {
            Some(Outcome::In(place)) => Ok(Some((place, opened.document.unwrap_or_default()))),
            _ => Err(self.calls.strange()),
        }
    }

    /// Records that the ticket has joined the empty line at this place.
    #[doc(hidden)]
    pub fn has_joined(&self, spot: &Location, ticket: &Ticket, place: &Place) {
        self.mail.expect(ticket.id, ticket.ttl);
        self.roll.enter(&spot.record, ticket.id, self.stream.opening(), &self.mail);
        self.roll.came_alone(&spot.record, ticket.id);
        self.mail.learn(ticket.id, place);
    }

    /// Records that the ticket has left the line at this place, by a step that reported this.
    #[doc(hidden)]
    pub fn has_left(&self, spot: &Location, id: TicketId, said: Option<&Document>) {
        if let Some(said) = said {
            self.lanes.hear(said);
        }
        self.forget(spot, id);
    }

    /// Waits for the caller's turn to change the document.
    #[doc(hidden)]
    pub async fn turn(&self, spot: &Location) -> Option<OwnedSemaphorePermit> {
        self.lanes.turn(spot).await
    }

    /// Returns the stages by which the ticket leaves the line at this place.
    #[doc(hidden)]
    pub fn leave_stages(&self, spot: &Location, id: TicketId) -> Vec<RawDocumentBuf> {
        bundle::leave(spot, id, self.lanes.inbox()).pipeline().cloned().collect()
    }
}

impl Calls {
    /// Returns the error for an answer that no step of Tenure's gives.
    pub fn strange(&self) -> Error {
        trouble::strange(&self.name)
    }

    /// Adds the place of a line to an error about its contents.
    pub fn in_line(&self, error: Error, spot: &Location, key: &Key) -> Error {
        trouble::in_line(error, &self.collection, spot, key)
    }
}

/// Returns the same fields with the `_id`.
fn with_id(fields: RawDocumentBuf) -> RawDocumentBuf {
    if fields.is_empty() {
        return fields;
    }
    let mut fields = Document::try_from(fields).unwrap_or_default();
    fields.insert("_id", 1);
    raw(&fields)
}
