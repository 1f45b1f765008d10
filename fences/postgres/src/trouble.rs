//! Turns errors of the driver into errors of this project: one sentence with the remedy.

use std::error::Error as _;

use tenure_core::{Error, Stale};
use tokio_postgres::Error as DriverError;
use tokio_postgres::error::{DbError, Severity};

use crate::{NO_TOKEN, STALE};

/// Turns an error of a statement under a token into one of the kind
/// [`Lost`](tenure_core::ErrorKind::Lost) if a newer holder wrote the row.
///
/// Other errors become `Unavailable` if the same write may succeed later, `Invalid` if the program
/// has to change, and `Rejected` otherwise.
///
/// ```no_run
/// # async fn run(tx: tokio_postgres::Transaction<'_>) -> tenure_core::Result<()> {
/// use tenure_fence_postgres::into_error;
///
/// tx.batch_execute("UPDATE shop.invoices SET paid = true").await.map_err(into_error)?;
/// # Ok(())
/// # }
/// ```
pub fn into_error(error: DriverError) -> Error {
    let result = match error.as_db_error() {
        Some(said) => match stale(said) {
            Some(stale) => return stale.into(),
            None => refused(said),
        },
        None if is_of_connection(&error) => Error::unavailable(format!(
            "PostgreSQL did not answer, and the write may be done or not: {}",
            chain(&error)
        )),
        None => Error::invalid(format!(
            "the driver of PostgreSQL cannot convert a value of the statement: {}",
            chain(&error)
        )),
    };
    result.caused_by(error)
}

/// Returns both tokens, if the trigger refused the write because of a newer one.
fn stale(said: &DbError) -> Option<Stale> {
    let detail = said.detail().filter(|_| said.code().code() == STALE)?;
    let (token, newest) = detail.split_once(" < ")?;
    Some(Stale { token: token.parse().ok()?, newest: newest.parse().ok()? })
}

fn refused(said: &DbError) -> Error {
    let code = said.code().code();
    let text = format!("{} ({code})", in_a_line(said.message()));
    match (&code[..2], code) {
        (_, NO_TOKEN) => Error::invalid(format!(
            "{text}, and nothing was changed: call `set_token` at the beginning of the transaction"
        )),
        // The server ends the session, perhaps after the commit.
        (class, code)
            if matches!(said.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
                || ["08", "57"].contains(&class) && code != "57014" =>
        {
            Error::unavailable(format!(
                "PostgreSQL ended the connection, and the write may be done or not: {text}"
            ))
        }
        // Another transaction was in the way, a time limit was over, or a resource is exhausted.
        ("40" | "53" | "57", _) | (_, "55P03" | "25006") => Error::unavailable(format!(
            "PostgreSQL cannot write now, and nothing was changed: {text}"
        )),
        ("42", code) if code != "42501" => Error::invalid(format!(
            "PostgreSQL does not understand the statement, and nothing was changed: {text}"
        )),
        _ => Error::rejected(format!(
            "PostgreSQL refused a guarded write, and nothing was changed: {text}"
        )),
    }
}

/// Whether the connection failed. Errors of conversions have a source of another type.
fn is_of_connection(error: &DriverError) -> bool {
    error.source().is_none_or(<dyn std::error::Error>::is::<std::io::Error>)
}

/// Returns the text of the error and of its sources.
fn chain(error: &DriverError) -> String {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    in_a_line(&format!("{error}{source}"))
}

fn in_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
