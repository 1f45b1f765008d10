//! The tables and the functions, which the first client makes.

use tenure_core::{Error, Reason, Result};
use tenure_kit::Link;
use tenure_record::ROW_BACKOFF;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;

use crate::primary::{Parameter, Primary, QueryRefusal, give_up_silent, query};
use crate::sql::TABLE_TIMEOUT;
use crate::sql::{self, Statements};
use crate::store::unsigned;
use crate::trouble;

/// The format of the tables and of the tickets in them.
const FORMAT: i32 = 1;
/// Tries to make the tables, while other clients make them at the same time.
const TRIES_MAX: u32 = 10;

/// Makes the tables and the functions if they are missing, and refuses those of a newer version.
/// Returns the server's clock.
pub(crate) async fn make(link: &Link<Primary>, statements: &Statements) -> Result<u64> {
    let settings = &link.server().settings;
    let mut backoff = ROW_BACKOFF;
    for tried in 1..=TRIES_MAX {
        match format(link, statements).await? {
            Some((FORMAT, now_us)) => return Ok(now_us),
            Some((format, _)) => {
                return Err(Error::rejected(format!(
                    "the tables of the schema {:?} have format {format}, and this program knows format {FORMAT}: update this program",
                    settings.schema
                ))
                .with_reason(Reason::ForeignData));
            }
            None => {}
        }
        let connection = link.connection().await?;
        let made = connection.client.batch_execute(&statements.setup);
        match timeout(settings.timeout, made).await {
            Ok(Ok(())) => {}
            // Another client makes them: the statements fail on one that exists meanwhile.
            Ok(Err(error)) if trouble::is_made_twice(&error) && tried < TRIES_MAX => {
                sleep(backoff.pause()).await;
            }
            Ok(Err(error)) => return Err(trouble::not_made(settings, &error)),
            Err(_) => {
                let late = trouble::no_answer(settings);
                give_up_silent(link, connection, &late);
                return Err(late);
            }
        }
    }
    Err(trouble::no_meta(settings))
}

/// The format of the tables, and the server's clock. `None`: tables or functions are missing.
async fn format(link: &Link<Primary>, statements: &Statements) -> Result<Option<(i32, u64)>> {
    let settings = &link.server().settings;
    let functions = sql::functions();
    let names = [Parameter::Text(&settings.schema), Parameter::Texts(&functions)];
    let rows = ask(link, &statements.is_made, &names).await?.unwrap_or_default();
    if !rows.first().is_some_and(|row| row.get("has_functions")) {
        return Ok(None);
    }
    let Some(rows) = ask(link, &statements.format, &[Parameter::Text(TABLE_TIMEOUT)]).await? else {
        return Ok(None);
    };
    let row = rows.first().ok_or_else(|| trouble::no_meta(settings))?;
    Ok(Some((row.get("format"), unsigned(row.get("now_us")))))
}

/// Executes a statement. `None`: a table or a function is missing.
async fn ask(
    link: &Link<Primary>,
    statement: &str,
    parameters: &[Parameter<'_>],
) -> Result<Option<Vec<Row>>> {
    match query(link, statement, parameters).await {
        Ok(rows) => Ok(Some(rows)),
        Err(QueryRefusal::Missing(_)) => Ok(None),
        Err(QueryRefusal::Conflict) => Err(trouble::locked_table(&link.server().settings)),
        Err(QueryRefusal::Failed(error)) => Err(error),
    }
}
