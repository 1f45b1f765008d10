//! A call: one command to the primary. Its answer counts only when a majority has the write on
//! disk.

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
use crate::line::raw;
use crate::name::Name;
use crate::settings::Settings;
use crate::{RETRIES, trouble};

/// The collection of named locks, unless the settings name another one.
const COLLECTION_DEFAULT: &str = "locks";
/// Maximum calls in flight.
const CALLS_MAX: usize = 128;
/// Maximum attempts of a first insert if other clients are quicker.
const INSERTS_MAX: u32 = 8;
/// One part of this many of a call's time is left for the network.
const WAY: u32 = 8;

/// The collection that keeps the lines, and its client.
pub struct Calls {
    pub(crate) client: Client,
    /// The database.
    pub database: Database,
    /// Name of the collection.
    pub collection: String,
    pub(crate) name: Name,
    /// Time for one answer.
    pub timeout: Duration,
    /// The runtime that drives the client's connections.
    pub home: Handle,
    rooms: Arc<Limiter>,
}

/// A change of one record.
pub(crate) struct Update<'a> {
    /// The query for the record.
    pub(crate) filter: &'a RawDocumentBuf,
    /// The stage that fills a record which this inserts.
    pub(crate) filling: Option<&'a RawDocumentBuf>,
    /// The first stage, with the caller's arguments.
    pub(crate) first: RawDocumentBuf,
    /// The stages behind it.
    pub(crate) stages: [&'a [RawDocumentBuf]; 3],
    /// The projection of the answer.
    pub(crate) fields: RawDocumentBuf,
    /// Whether the record is inserted if there is none.
    pub(crate) makes: bool,
    /// The expected state of the record. If the state is different, there is no answer.
    pub(crate) expects: RawDocumentBuf,
    /// The order in which records are tried, if more than one may be found.
    pub(crate) sort: Option<&'a Document>,
}

impl Update<'_> {
    /// Returns the query that finds the record if it is as expected.
    pub(crate) fn query(&self) -> RawDocumentBuf {
        let mut query = self.expects.clone();
        for field in self.filter {
            let (name, value) = field.expect("it was made of a document");
            query.append(name, value);
        }
        query
    }

    /// Returns all stages, in their order.
    pub(crate) fn pipeline(&self) -> impl Iterator<Item = &RawDocumentBuf> {
        let rest = self.stages.into_iter().flatten();
        self.filling.into_iter().chain([&self.first]).chain(rest)
    }
}

impl Calls {
    /// Returns the calls of this client. `home` is the runtime that drives its connections.
    pub(crate) fn new(client: Client, name: Name, home: Handle, settings: &Settings) -> Self {
        let database = match &settings.database {
            Some(name) => client.database(name),
            None => client.default_database().unwrap_or_else(|| client.database("tenure")),
        };
        let rooms = Arc::new(Limiter::new(1, CALLS_MAX));
        let collection =
            settings.collection.clone().unwrap_or_else(|| COLLECTION_DEFAULT.to_owned());
        let timeout = settings.timeout;
        Self { client, database, collection, name, timeout, home, rooms }
    }

    /// Changes one record in one step, and returns its projection; `None` if there is no such
    /// record.
    pub(crate) async fn update(&self, update: &Update<'_>) -> Result<Option<Document>> {
        let until = Instant::now() + self.timeout;
        let mut tries = 1;
        loop {
            let answer = self.send(&self.database, self.command(update), until).await;
            match answer {
                // The record exists, and is different from what was expected.
                Err(Refused::Twice(_)) if !update.expects.is_empty() => return Ok(None),
                // The record of the other client exists now.
                Err(Refused::Twice(_)) if tries < INSERTS_MAX => tries += 1,
                Err(Refused::Twice(_)) => return Err(trouble::contended(&self.name)),
                Err(refused) => return Err(refused.into()),
                Ok(answer) => return self.confirmed(answer),
            }
        }
    }

    /// Sends a command that changes no record.
    ///
    /// # Errors
    ///
    /// The server refuses the command, or does not answer within the timeout.
    pub async fn ask(&self, database: &Database, command: RawDocumentBuf) -> Result<Document> {
        let until = Instant::now() + self.timeout;
        Ok(self.send(database, command, until).await?)
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
        let until = Instant::now() + self.timeout;
        match self.send(&self.database, command, until).await {
            Err(Refused::Twice(error)) => Err(Error::rejected(error.to_string())),
            Err(refused) => Err(refused.into()),
            Ok(answer) => self.lasting(answer),
        }
    }

    /// Returns the time that the server has for a call.
    pub fn server_ms(&self) -> i64 {
        let time = self.timeout.saturating_sub(self.timeout / WAY);
        i64::try_from(time.as_millis()).unwrap_or(i64::from(i32::MAX)).clamp(1, i32::MAX.into())
    }

    fn command(&self, update: &Update<'_>) -> RawDocumentBuf {
        let time = self.server_ms();
        let mut stages = RawArrayBuf::new();
        for stage in update.pipeline() {
            stages.push(stage.clone());
        }
        let mut command = rawdoc! {
            "findAndModify": self.collection.as_str(),
            "query": update.query(),
            "update": stages,
            "fields": update.fields.clone(),
            "new": true,
            "upsert": update.makes,
            "writeConcern": { "w": "majority", "j": true, "wtimeout": time },
            "maxTimeMS": time,
        };
        if let Some(sort) = update.sort {
            command.append(cstr!("sort"), raw(sort));
        }
        command
    }

    /// Returns the record, if a majority has the write.
    fn confirmed(&self, answer: Document) -> Result<Option<Document>> {
        match self.lasting(answer)?.remove("value") {
            Some(Bson::Document(record)) => Ok(Some(record)),
            _ => Ok(None),
        }
    }

    /// Returns the answer to a write, if a majority has it.
    pub(crate) fn lasting(&self, answer: Document) -> Result<Document> {
        if let Ok(error) = answer.get_document("writeConcernError") {
            let code = whole(error, "code").unwrap_or_default();
            return Err(trouble::unconfirmed(
                &self.name,
                code,
                error.get_str("errmsg").unwrap_or_default(),
            ));
        }
        Ok(answer)
    }

    /// Sends a command, which goes on if the caller is dropped: the driver closes the connection of
    /// a dropped call.
    async fn send(
        &self,
        database: &Database,
        command: RawDocumentBuf,
        until: Instant,
    ) -> Result<Document, Refused> {
        let late = || Refused::Other(trouble::late(&self.name));
        let room = timeout_at(until, self.rooms.enter(0)).await.map_err(|_| late())?;
        let room = room.map_err(Refused::Other)?;
        let (database, name) = (database.clone(), self.name.clone());
        let (told, answered) = oneshot::channel();
        self.home.spawn(async move {
            let primary = SelectionCriteria::ReadPreference(ReadPreference::Primary);
            let mut call = std::pin::pin!(async {
                database.run_raw_command(command).selection_criteria(primary).await
            });
            let Ok(answer) = timeout_at(until, call.as_mut()).await else {
                let reason = trouble::late(&name);
                room.late(&reason);
                let _ = told.send(Err(Refused::Other(reason))); // the caller may be gone
                let _ = call.await; // too late for the caller
                return;
            };
            let answer = answer.map_err(|error| Refused::of(&name, &error));
            match &answer {
                Err(Refused::Silent(reason)) => room.late(reason),
                _ => room.answered(),
            }
            let _ = told.send(answer); // the caller may be gone
        });
        match timeout_at(until, answered).await {
            Ok(Ok(answer)) => answer,
            _ => Err(late()),
        }
    }
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
    fn of(name: &Name, error: &mongodb::error::Error) -> Self {
        use mongodb::error::ErrorKind;
        let told = trouble::error(name, error);
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
