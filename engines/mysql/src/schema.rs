//! The tables and the procedures, which the first client makes.

use mysql_async::Row;
use tenure_core::{Error, Reason, Result};
use tenure_kit::Link;
use tenure_record::ROW_BACKOFF;
use tokio::time::sleep;

use crate::primary::{CallRefusal, MysqlPrimary, query};
use crate::sql::{PROCEDURES_LEN, Procedures};
use crate::store::number;
use crate::trouble;

/// The format of the tables and of the tickets in them.
const FORMAT: u64 = 1;
/// Tries to make the tables, while other clients make them at the same time.
const TRIES_MAX: u32 = 10;

/// Makes the tables and the procedures if they are missing, and refuses those of a newer version.
/// Returns the server's clock.
pub(crate) async fn make(link: &Link<MysqlPrimary>, statements: &Procedures) -> Result<u64> {
    let settings = &link.server().settings;
    let mut backoff = ROW_BACKOFF;
    for _ in 0..TRIES_MAX {
        match format(link, statements).await? {
            Some((FORMAT, now_us)) => return Ok(now_us),
            Some((format, _)) => {
                return Err(Error::rejected(format!(
                    "the tables with the prefix `{}` have format {format}, and this program knows format {FORMAT}: update this program",
                    settings.prefix
                ))
                .with_reason(Reason::ForeignData));
            }
            None => {}
        }
        for statement in &statements.setup {
            match query(link, statement.clone()).await {
                Ok(_) => {}
                // Another client makes them.
                Err(CallRefusal::Conflict) => {
                    sleep(backoff.pause()).await;
                    break;
                }
                Err(CallRefusal::Missing(error) | CallRefusal::Failed(error)) => {
                    return Err(error);
                }
            }
        }
    }
    Err(trouble::incomplete(settings))
}

/// The format of the tables, and the server's clock. `None`: tables or procedures are missing.
async fn format(link: &Link<MysqlPrimary>, statements: &Procedures) -> Result<Option<(u64, u64)>> {
    let settings = &link.server().settings;
    match query(link, statements.format.clone()).await {
        Ok(rows) => {
            let row = rows.first().ok_or_else(|| trouble::no_meta(settings))?;
            let get = |row: &Row, column| number(row, column).unwrap_or(0);
            let format = get(row, "format");
            let is_whole = format != FORMAT || get(row, "procedures") == PROCEDURES_LEN;
            Ok(is_whole.then(|| (format, get(row, "now_us"))))
        }
        Err(CallRefusal::Missing(_)) => Ok(None),
        Err(CallRefusal::Conflict) => Err(trouble::no_answer(settings)),
        Err(CallRefusal::Failed(error)) => Err(error),
    }
}
