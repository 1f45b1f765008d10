//! The tables, which the first client makes.

use tenure_core::{Error, Reason, Result};
use tenure_kit::Link;
use tokio::time::{sleep, timeout};

use crate::primary::{Primary, QueryRefusal, query};
use crate::sql::Statements;
use crate::trouble;

/// The format of the tables and of the tickets in them.
const FORMAT: i32 = 1;
/// Tries to make the tables, while other clients make them at the same time.
const TRIES_MAX: u32 = 10;

/// Makes the tables if they are missing, and refuses those of a newer version.
pub(crate) async fn make(link: &Link<Primary>, statements: &Statements) -> Result<()> {
    let settings = &link.server().settings;
    for tried in 1..=TRIES_MAX {
        match format(link, statements).await {
            Ok(Some(FORMAT)) => return Ok(()),
            Ok(Some(format)) => {
                return Err(Error::rejected(format!(
                    "the tables of the schema {:?} have format {format}, and this program knows format {FORMAT}: update this program",
                    settings.schema
                ))
                .with_reason(Reason::ForeignData));
            }
            Ok(None) => {}
            Err(error) => return Err(error),
        }
        let connection = link.connection().await?;
        let made = connection.client.batch_execute(&statements.schema);
        match timeout(settings.timeout, made).await {
            Ok(Ok(())) => {}
            // Another client makes them: the statements fail on one that exists meanwhile.
            Ok(Err(error)) if trouble::is_made_twice(&error) && tried < TRIES_MAX => {
                sleep(tenure_core::jitter(settings.timeout / 10, u64::from(tried))).await;
            }
            Ok(Err(error)) => return Err(trouble::not_made(settings, &error)),
            Err(_) => {
                let late = trouble::no_answer(settings);
                link.give_up_silent(connection.generation(), &late);
                return Err(late);
            }
        }
    }
    Err(trouble::no_meta(settings))
}

/// The format of the tables. `None`: there are none.
async fn format(link: &Link<Primary>, statements: &Statements) -> Result<Option<i32>> {
    let settings = &link.server().settings;
    match query(link, &statements.format, &[]).await {
        Ok(rows) => match rows.first() {
            Some(row) => Ok(Some(row.get("format"))),
            None => Err(trouble::no_meta(settings)),
        },
        Err(QueryRefusal::Missing(_)) => Ok(None),
        Err(QueryRefusal::Conflict(_)) => Err(trouble::no_answer(settings)),
        Err(QueryRefusal::Failed(error)) => Err(error),
    }
}
