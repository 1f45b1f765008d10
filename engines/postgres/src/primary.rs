//! The primary of a database for the kit's link, and one statement on it.

use std::sync::Arc;

use tenure_core::{Error, Result};
use tenure_kit::{ConnectContext, Connection, Link, Server};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use crate::connection::{OpenConnection, open_primary};
use crate::settings::Settings;
use crate::trouble::{self, SqlOutcome};

/// The primary among the hosts of the settings.
pub(crate) struct Primary {
    pub(crate) settings: Settings,
}

/// A parameter of a statement. Its type goes with it, because statements have no name: so they pass
/// every pooler.
#[derive(Clone, Debug)]
pub(crate) enum Parameter<'a> {
    Number(i64),
    Flag(bool),
    Text(&'a str),
    Bytes(&'a [u8]),
    BytesOrNull(Option<Vec<u8>>),
    Texts(&'a [String]),
    AllBytes(&'a [&'a [u8]]),
    Numbers(&'a [i64]),
}

impl From<u64> for Parameter<'_> {
    /// Numbers that PostgreSQL does not have are years away.
    fn from(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl Parameter<'_> {
    fn typed(&self) -> (&(dyn ToSql + Sync), Type) {
        match self {
            Self::Number(number) => (number, Type::INT8),
            Self::Flag(flag) => (flag, Type::BOOL),
            Self::Text(text) => (text, Type::TEXT),
            Self::Bytes(bytes) => (bytes, Type::BYTEA),
            Self::BytesOrNull(bytes) => (bytes, Type::BYTEA),
            Self::Texts(texts) => (texts, Type::TEXT_ARRAY),
            Self::AllBytes(all) => (all, Type::BYTEA_ARRAY),
            Self::Numbers(numbers) => (numbers, Type::INT8_ARRAY),
        }
    }
}

/// Why a statement returned no rows.
#[derive(Debug)]
pub(crate) enum QueryRefusal {
    /// Another transaction has the row, or has rolled this one back. Nothing was written.
    Conflict,
    /// There is no such table or function.
    Missing(Error),
    Failed(Error),
}

impl QueryRefusal {
    /// Returns after a conflict: the statement may be repeated.
    ///
    /// # Errors
    ///
    /// The statement failed for another reason.
    pub(crate) fn conflict(self) -> Result<()> {
        match self {
            Self::Conflict => Ok(()),
            Self::Missing(error) | Self::Failed(error) => Err(error),
        }
    }
}

impl From<Error> for QueryRefusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Server for Primary {
    type Open = OpenConnection;

    async fn open(&self, opening: &ConnectContext) -> Result<OpenConnection> {
        let lost = opening.lost();
        let opened = open_primary(&self.settings, move || lost.tell()).await;
        opened.map(|(connection, _)| connection)
    }
}

/// Executes one statement. A server that does not answer in time loses its connection.
pub(crate) async fn query(
    link: &Link<Primary>,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, QueryRefusal> {
    // On the heap: the driver's future has several kilobytes.
    Box::pin(execute(link, statement, parameters)).await
}

async fn execute(
    link: &Link<Primary>,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, QueryRefusal> {
    let settings = &link.server().settings;
    let typed: Vec<_> = parameters.iter().map(Parameter::typed).collect();
    let until = Instant::now() + settings.timeout;
    let late = || trouble::no_answer(settings);
    let connection = timeout_at(until, link.connection()).await.map_err(|_| late())??;
    let room = timeout_at(until, link.room(&connection)).await.map_err(|_| late())?;
    let _room = room.map_err(|_| late())?;
    // The statement is sent now, so this is when its answer begins to be late.
    let until = Instant::now() + settings.timeout;
    connection.sent();
    let answer = timeout_at(until, connection.client.query_typed(statement, &typed)).await;
    if answer.is_ok() {
        connection.answered();
    }
    match answer {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => match trouble::outcome(&error) {
            SqlOutcome::Conflict => Err(QueryRefusal::Conflict),
            outcome => {
                if outcome == SqlOutcome::Ended {
                    link.give_up(connection.generation());
                }
                let sentence = trouble::error(settings, &error);
                Err(match outcome {
                    SqlOutcome::Missing => QueryRefusal::Missing(sentence),
                    _ => QueryRefusal::Failed(sentence),
                })
            }
        },
        Err(_) => {
            let silence = late();
            give_up_silent(link, connection, &silence);
            Err(silence.into())
        }
    }
}

/// Gives up a connection whose server does not answer a statement, and ends its statements there.
pub(crate) fn give_up_silent(
    link: &Link<Primary>,
    connection: Arc<Connection<OpenConnection>>,
    silence: &Error,
) {
    let generation = connection.generation();
    let was_in_use = if connection.is_heard() {
        link.give_up_silent(generation, silence)
    } else {
        link.give_up_mute(generation, silence)
    };
    if was_in_use {
        let client = link.client().clone();
        link.home().spawn(async move { connection.end_silent(&client.server().settings).await });
    }
}
