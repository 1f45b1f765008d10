//! The extension point of this engine: lines that are kept elsewhere than in records of Tenure's
//! own. A place is a filter, a prefix of fields, the fields to read, and whether a lock may insert.
//!
//! The crate `tenure-mongodb-documents` builds locks on documents on it. It is no part of the
//! public API, and changes without notice.

use std::sync::Arc;

use mongodb::Client;
use mongodb::bson::{Bson, Document, RawDocumentBuf, cstr};
use mongodb::options::ClientOptions;
use tenure_core::{Error, Key, Place, Result, Ticket, TicketId};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

pub use crate::RETRIES;
pub use crate::answer::whole;
pub use crate::command::CommandSender;
pub use crate::counter::millis;
pub use crate::feed::{Consumer, Feed, Hears, Listening};
pub use crate::field_prefix::{FieldPrefix, PartStages, Refusal, scratch};
pub use crate::line::{Steps, raw};
pub use crate::location::{CompiledPipelines, Location};
pub use crate::projection::{Projections, Reply};
pub use crate::readable::{may_have_line, number, takes_tickets, unless_foreign};
pub use crate::request::Reads;
pub use crate::trouble::{is_about_one, other_id};
pub use crate::url::read as read_url;
pub use crate::wants::Wants;

use crate::answer::VerbOutcome;
use crate::batch;
use crate::connect;
use crate::fresh::Fresh;
use crate::request::{TicketRequest, Verb};
use crate::server_label::ServerLabel;
use crate::settings::Settings;
use crate::store::MongoStore;
use crate::trouble;

/// The differences between documents and records of the engine's own.
pub struct Extension {
    /// Returns the filter for the changes that carry letters for this inbox, in the field
    /// `notices`.
    pub letters: Box<dyn Fn(&str) -> Wants + Send + Sync>,
    /// Returns the name of a document from its `_id`, as [`Location::document`] has it.
    pub name: fn(&Bson) -> String,
}

/// The outcome of a join.
pub enum JoinOutcome {
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
        let (client, servers) = connect::client(options, settings.timeout)?;
        Self::of(client, servers, Handle::current(), settings, true, Some(extension)).await
    }

    /// Opens the store over a client of the program's own, which `runtime` drives.
    #[doc(hidden)]
    pub async fn extended_over(
        client: Client,
        runtime: Handle,
        settings: &Settings,
        extension: Extension,
    ) -> Result<Self> {
        Self::of(client, ServerLabel::unknown(), runtime, settings, false, Some(extension)).await
    }

    /// Returns the commands of the collection.
    #[doc(hidden)]
    pub fn commands(&self) -> &Arc<CommandSender> {
        &self.commands
    }

    /// Returns the change stream of the collection.
    #[doc(hidden)]
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Joins the empty line of any document that the place finds, in this order, and reads the
    /// document with its `_id`. The stage comes last. Returns `None` if there is no such document,
    /// or another ticket was quicker.
    #[doc(hidden)]
    pub async fn join_any(
        &self,
        any: &Location,
        ticket: &Ticket,
        last: RawDocumentBuf,
        sort: Option<&Document>,
        reads: &Reads,
    ) -> Result<Option<(Place, Document)>> {
        let verb = Verb::Join { hurry: true };
        let request =
            TicketRequest { reads: reads.clone(), ..TicketRequest::new(ticket.clone(), verb) };
        let last = [last];
        let mut update = batch::update(any, &[&request], self.batcher.inbox(), &Fresh::new());
        update.stages.push(&last);
        (update.sort, update.expects) = (sort, RawDocumentBuf::new());
        update.fields.append(cstr!("id"), "$_id");
        let Some(mut answer) = self.commands.update(&update).await? else { return Ok(None) };
        let id = answer.remove("id").unwrap_or_default();
        let reply = any.pipelines.answers.open(answer);
        self.batcher.deliver(&reply.said);
        let read = batch::read(any, &[&request], Some(&reply.said));
        match read.and_then(|outcomes| outcomes.into_iter().next()) {
            Some(VerbOutcome::In(place)) => {
                let mut document = reply.document.unwrap_or_default();
                document.insert("_id", id);
                Ok(Some((place, document)))
            }
            Some(VerbOutcome::Busy) => Ok(None),
            Some(VerbOutcome::Refused(error)) => Err(error),
            _ => Err(self.commands.strange()),
        }
    }

    /// Records that the ticket has joined the empty line at this place.
    #[doc(hidden)]
    pub fn has_joined(&self, location: &Location, ticket: &Ticket, place: &Place) {
        self.mail.expect(ticket.id, ticket.ttl);
        self.tickets.enter(&location.record, ticket.id, self.stream.opening(), &self.mail);
        self.mail.learn(ticket.id, place);
    }

    /// Records that the ticket has left the line at this place, by a step that reported this.
    #[doc(hidden)]
    pub fn has_left(&self, location: &Location, id: TicketId, said: Option<&Document>) {
        if let Some(said) = said {
            self.batcher.deliver(said);
        }
        self.forget(location, id);
    }

    /// Waits for the caller's turn to change the document.
    #[doc(hidden)]
    pub async fn turn(&self, location: &Location) -> Option<OwnedSemaphorePermit> {
        self.batcher.turn(location).await
    }

    /// Returns the stages by which the ticket leaves the line at this place.
    #[doc(hidden)]
    pub fn leave_stages(&self, location: &Location, id: TicketId) -> Vec<RawDocumentBuf> {
        batch::leave(location, id, self.batcher.inbox()).pipeline().cloned().collect()
    }
}

impl CommandSender {
    /// Returns the error for an answer that no step of Tenure's gives.
    pub fn strange(&self) -> Error {
        trouble::strange(&self.servers)
    }

    /// Adds the place of a line to an error about its contents.
    pub fn in_line(&self, error: Error, location: &Location, key: &Key) -> Error {
        trouble::in_line(error, &self.collection, location, key)
    }
}
