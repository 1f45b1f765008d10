//! The primary of a database for the kit's link, and one statement on it.

use tenure_core::{Error, Result};
use tenure_kit::{ConnectContext, Link, Server};
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
        }
    }
}

/// Why a statement returned no rows.
#[derive(Debug)]
pub(crate) enum QueryRefusal {
    /// Another transaction has the row, or has rolled this one back. Nothing was written.
    Conflict(SqlOutcome),
    /// There is no such table.
    Missing(Error),
    Failed(Error),
}

impl QueryRefusal {
    /// Returns the conflict, after which the statement may be repeated.
    ///
    /// # Errors
    ///
    /// The statement failed for another reason.
    pub(crate) fn conflict(self) -> Result<SqlOutcome> {
        match self {
            Self::Conflict(outcome) => Ok(outcome),
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
    match timeout_at(until, connection.client.query_typed(statement, &typed)).await {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => match trouble::outcome(&error) {
            outcome @ (SqlOutcome::Locked | SqlOutcome::RolledBack) => {
                Err(QueryRefusal::Conflict(outcome))
            }
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
            link.give_up_silent(connection.generation(), &silence);
            Err(silence.into())
        }
    }
}
