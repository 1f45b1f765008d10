//! A command to the primary. Its answer counts only when a majority has the write on disk.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Bson, Document, RawArrayBuf, RawDocumentBuf, cstr, rawdoc};
use mongodb::options::{ReadPreference, SelectionCriteria};
use mongodb::{Client, Database};
use tenure_core::{Error, Reason, Result, ThisRuntime};
use tenure_kit::limiter::Limiter;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::answer::whole;
use crate::line::{append_all, raw};
use crate::server_label::ServerLabel;
use crate::settings::Settings;
use crate::{RETRIES, trouble};

/// The collection of named locks, unless the settings name another one.
const COLLECTION_DEFAULT: &str = "locks";
/// Maximum commands in flight.
const COMMANDS_MAX: usize = 128;
/// Maximum attempts of a first insert if other clients are quicker.
const INSERTS_MAX: u32 = 8;
/// One part of this many of a command's time is left for the network.
const WAY: u32 = 8;

/// Sends commands to the collection that keeps the lines.
pub struct CommandSender {
    pub(crate) client: Client,
    /// The database.
    pub database: Database,
    /// Name of the collection.
    pub collection: String,
    pub(crate) servers: ServerLabel,
    /// Time for one answer.
    pub timeout: Duration,
    /// The runtime that drives the client's connections.
    pub runtime: Handle,
    limiter: Arc<Limiter>,
}

/// A change of one record.
pub(crate) struct RecordUpdate<'a> {
    /// The query for the record.
    pub(crate) filter: &'a RawDocumentBuf,
    /// The stage that fills a record which this inserts.
    pub(crate) filling: Option<&'a RawDocumentBuf>,
    /// The first stage, with the caller's arguments.
    pub(crate) first: RawDocumentBuf,
    /// The stages behind it.
    pub(crate) stages: Vec<&'a [RawDocumentBuf]>,
    /// The projection of the answer.
    pub(crate) fields: RawDocumentBuf,
    /// Whether the record is inserted if there is none.
    pub(crate) makes: bool,
    /// A further condition on the record.
    pub(crate) expects: RawDocumentBuf,
    /// The order in which records are tried, if more than one may be found.
    pub(crate) sort: Option<&'a Document>,
}

impl<'a> RecordUpdate<'a> {
    /// An update of a record that is there.
    pub(crate) fn new(
        filter: &'a RawDocumentBuf,
        first: RawDocumentBuf,
        stages: Vec<&'a [RawDocumentBuf]>,
        fields: RawDocumentBuf,
    ) -> Self {
        let expects = RawDocumentBuf::new();
        Self { filter, filling: None, first, stages, fields, makes: false, expects, sort: None }
    }

    /// Returns the query that finds the record if it is as expected.
    pub(crate) fn query(&self) -> RawDocumentBuf {
        let mut query = self.expects.clone();
        append_all(&mut query, self.filter);
        query
    }

    /// Returns all stages, in their order.
    pub(crate) fn pipeline(&self) -> impl Iterator<Item = &RawDocumentBuf> {
        let rest = self.stages.iter().copied().flatten();
        self.filling.into_iter().chain([&self.first]).chain(rest)
    }
}

impl CommandSender {
    /// Returns the sender of this client. `runtime` is the runtime that drives its connections.
    pub(crate) fn new(
        client: Client,
        servers: ServerLabel,
        runtime: Handle,
        settings: &Settings,
    ) -> Self {
        let database = match &settings.database {
            Some(name) => client.database(name),
            None => client.default_database().unwrap_or_else(|| client.database("tenure")),
        };
        let limiter = Arc::new(Limiter::new(1, COMMANDS_MAX));
        let collection =
            settings.collection.clone().unwrap_or_else(|| COLLECTION_DEFAULT.to_owned());
        let timeout = settings.timeout;
        Self { client, database, collection, servers, timeout, runtime, limiter }
    }

    /// Changes one record in one step, and returns its projection; `None` if there is no such
    /// record.
    pub(crate) async fn update(&self, update: &RecordUpdate<'_>) -> Result<Option<Document>> {
        let until = Instant::now() + self.timeout;
        for _ in 0..INSERTS_MAX {
            match self.send_to(&self.database, self.find_and_modify(update), until).await {
                // The record of the other client exists now.
                Err(Refused::Twice(_)) => {}
                answer => {
                    return Ok(match self.lasting(answer?)?.remove("value") {
                        Some(Bson::Document(record)) => Some(record),
                        _ => None,
                    });
                }
            }
        }
        Err(trouble::contended(&self.servers))
    }

    /// Sends a command that changes no record.
    ///
    /// # Errors
    ///
    /// The server refuses the command, or does not answer within the timeout.
    pub async fn ask(&self, database: &Database, command: RawDocumentBuf) -> Result<Document> {
        let until = Instant::now() + self.timeout;
        Ok(self.send_to(database, command, until).await?)
    }

    /// Returns all documents that a command finds.
    ///
    /// # Errors
    ///
    /// The server refuses the command, or does not answer within the timeout.
    pub async fn list(&self, command: RawDocumentBuf) -> Result<Vec<Document>> {
        let database = self.database.clone();
        let listing = async move {
            let mut cursor =
                database.run_raw_cursor_command(command).selection_criteria(primary()).await?;
            let mut found = Vec::new();
            while cursor.advance().await? {
                found.push(cursor.deserialize_current()?);
            }
            Ok(found)
        };
        Ok(self.send(listing, Instant::now() + self.timeout).await?)
    }

    /// Repeats the questions of an opening if an answer is lost, within the timeout: the driver
    /// gives a request up when its heartbeat is late. A server that was not found is not looked for
    /// again.
    ///
    /// # Errors
    ///
    /// Those of the questions.
    pub async fn repeated<T, F: Future<Output = Result<T>>>(
        &self,
        mut ask: impl FnMut() -> F,
    ) -> Result<T> {
        let once = || {
            let asked = ask();
            async move {
                match asked.await {
                    Err(error) if error.reason() == Some(Reason::NoPrimary) => Ok(Err(error)),
                    answer => answer.map(Ok),
                }
            }
        };
        RETRIES.run(&ThisRuntime::new(), self.timeout, once).await?
    }

    /// Sends a write command, and returns when a majority has it.
    ///
    /// # Errors
    ///
    /// The server refuses the command, or does not answer within the timeout.
    pub async fn write(&self, command: RawDocumentBuf) -> Result<Document> {
        match self.send_to(&self.database, command, Instant::now() + self.timeout).await {
            Err(Refused::Twice(error)) => Err(Error::rejected(error.to_string())),
            answer => self.lasting(answer?),
        }
    }

    /// Returns the time that the server has for a command.
    pub fn server_ms(&self) -> i64 {
        let time = self.timeout.saturating_sub(self.timeout / WAY);
        i64::try_from(time.as_millis()).unwrap_or(i64::from(i32::MAX)).clamp(1, i32::MAX.into())
    }

    /// Returns a `findAndModify` that counts when a majority has it in its journal.
    pub fn find_one(&self, query: RawDocumentBuf) -> RawDocumentBuf {
        let time = self.server_ms();
        rawdoc! {
            "findAndModify": self.collection.as_str(),
            "query": query,
            "writeConcern": { "w": "majority", "j": true, "wtimeout": time },
            "maxTimeMS": time,
        }
    }

    fn find_and_modify(&self, update: &RecordUpdate<'_>) -> RawDocumentBuf {
        let mut stages = RawArrayBuf::new();
        for stage in update.pipeline() {
            stages.push(stage.clone());
        }
        let mut command = self.find_one(update.query());
        command.append(cstr!("update"), stages);
        command.append(cstr!("fields"), update.fields.clone());
        command.append(cstr!("new"), true);
        command.append(cstr!("upsert"), update.makes);
        if let Some(sort) = update.sort {
            command.append(cstr!("sort"), raw(sort));
        }
        command
    }

    /// Returns the answer to a write, if a majority has it.
    fn lasting(&self, answer: Document) -> Result<Document> {
        if let Ok(error) = answer.get_document("writeConcernError") {
            let code = whole(error, "code").unwrap_or_default();
            let message = error.get_str("errmsg").unwrap_or_default();
            return Err(trouble::unconfirmed(&self.servers, code, message));
        }
        Ok(answer)
    }

    async fn send_to(
        &self,
        database: &Database,
        command: RawDocumentBuf,
        until: Instant,
    ) -> Result<Document, Refused> {
        let database = database.clone();
        let command =
            async move { database.run_raw_command(command).selection_criteria(primary()).await };
        self.send(command, until).await
    }

    /// Sends a command, which goes on if the caller is dropped: the driver closes the connection of
    /// a dropped command.
    async fn send<T: Send + 'static>(
        &self,
        command: impl Future<Output = mongodb::error::Result<T>> + Send + 'static,
        until: Instant,
    ) -> Result<T, Refused> {
        let late = || Refused::Other(trouble::late(&self.servers));
        let permit = timeout_at(until, self.limiter.enter(0)).await.map_err(|_| late())?;
        let permit = permit.map_err(Refused::Other)?;
        let servers = self.servers.clone();
        let (told, answered) = oneshot::channel();
        self.runtime.spawn(async move {
            let mut command = std::pin::pin!(command);
            let Ok(answer) = timeout_at(until, command.as_mut()).await else {
                let reason = trouble::late(&servers);
                permit.late(&reason);
                let _ = told.send(Err(Refused::Other(reason))); // the caller may be gone
                let _ = command.await; // too late for the caller
                return;
            };
            let answer = answer.map_err(|error| Refused::of(&servers, &error));
            match &answer {
                Err(Refused::Silent(reason)) => permit.late(reason),
                _ => permit.answered(),
            }
            let _ = told.send(answer); // the caller may be gone
        });
        match timeout_at(until, answered).await {
            Ok(Ok(answer)) => answer,
            _ => Err(late()),
        }
    }
}

fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}

/// Reasons for which there is no answer to a command.
enum Refused {
    /// Another client inserted the record at the same time.
    Twice(Error),
    /// No server was found.
    Silent(Error),
    Other(Error),
}

impl Refused {
    fn of(servers: &ServerLabel, error: &mongodb::error::Error) -> Self {
        use mongodb::error::ErrorKind;
        let told = trouble::error(servers, error);
        match &*error.kind {
            ErrorKind::Command(command)
                if command.code == trouble::DUPLICATE_KEY && trouble::is_inserted(error) =>
            {
                Self::Twice(told)
            }
            ErrorKind::ServerSelection { .. } => Self::Silent(told),
            _ => Self::Other(told),
        }
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        let (Refused::Twice(error) | Refused::Silent(error) | Refused::Other(error)) = refused;
        error
    }
}
