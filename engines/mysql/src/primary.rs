//! The server that takes writes for the kit's link, and one statement on it.

use mysql_async::Row;
use tenure_core::{Error, Result};
use tenure_kit::{ConnectContext, Link, Server};
use tokio::time::{Instant, timeout_at};

use crate::connection::{MysqlConnection, StatementError, open_primary};
use crate::settings::Settings;
use crate::trouble::{self, ErrorClass};

/// The server among the hosts of the settings that takes writes.
pub(crate) struct MysqlPrimary {
    pub(crate) settings: Settings,
}

/// Why a statement returned no rows.
#[derive(Debug)]
pub(crate) enum CallRefusal {
    /// Another transaction has the row, or has rolled this one back. Nothing was written.
    Conflict,
    /// There is no such table or procedure.
    Missing(Error),
    Failed(Error),
}

impl CallRefusal {
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

impl From<Error> for CallRefusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Server for MysqlPrimary {
    type Open = MysqlConnection;

    async fn open(&self, opening: &ConnectContext) -> Result<MysqlConnection> {
        let lost = opening.lost();
        open_primary(&self.settings, move || lost.tell()).await
    }
}

/// Executes one statement. A server that does not answer in time loses its connection.
pub(crate) async fn query(
    link: &Link<MysqlPrimary>,
    text: String,
) -> Result<Vec<Row>, CallRefusal> {
    let settings = &link.server().settings;
    let until = Instant::now() + settings.timeout;
    let late = || trouble::no_answer(settings);
    let connection = timeout_at(until, link.connection()).await.map_err(|_| late())??;
    // The statements before it have time limits of their own, and the last of them ends the
    // connection. The sum of them is limited here.
    let answer = connection.query(text, until + settings.timeout);
    let within = until + settings.timeout * 2;
    let error = match timeout_at(within, answer).await {
        Ok(Ok(rows)) => return Ok(rows),
        Ok(Err(StatementError::Refused(error))) => error,
        Ok(Err(StatementError::Ended)) => {
            link.give_up(connection.generation());
            return Err(trouble::ended(settings).into());
        }
        Ok(Err(StatementError::Silent)) | Err(_) => {
            let silence = late();
            link.give_up_silent(connection.generation(), &silence);
            return Err(silence.into());
        }
    };
    let outcome = trouble::outcome(&error);
    if outcome == ErrorClass::Ended {
        link.give_up(connection.generation());
    }
    let sentence = trouble::error(settings, &error);
    Err(match outcome {
        ErrorClass::Conflict => CallRefusal::Conflict,
        ErrorClass::Missing => CallRefusal::Missing(sentence),
        ErrorClass::Ended | ErrorClass::Failed => CallRefusal::Failed(sentence),
    })
}
