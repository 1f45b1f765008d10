//! Sets the token of a transaction, and runs single statements under a token.

use futures_util::future::join3;
use tenure_core::{Result, Token};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error as DriverError, Row, Transaction};

use crate::{SETTING, into_error};

/// A parameter of a statement with its type. The type saves a round trip, and a prepared statement.
type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Gives the transaction this token. Call it before the first write.
///
/// The setting ends with the transaction, so another client of a pooler never gets it. It also ends
/// with a `ROLLBACK TO SAVEPOINT` to an earlier savepoint.
///
/// # Errors
///
/// `Unavailable` if there was no answer.
///
/// # Cancel safety
///
/// If the future is dropped after it was polled, the transaction may have the token or not.
pub async fn set_token(transaction: &Transaction<'_>, token: Token) -> Result<()> {
    transaction.batch_execute(&set_local(token)).await.map_err(into_error)
}

/// Runs one statement under the token in a transaction of its own, and returns the number of
/// changed rows. It costs one round trip.
///
/// The client must not be inside a transaction.
///
/// # Errors
///
/// [`Lost`](tenure_core::ErrorKind::Lost) if a newer token wrote one of the rows, with
/// [`Stale`](crate::Stale) as the cause. Other errors say whether nothing was changed or the write
/// may be done or not.
///
/// # Cancel safety
///
/// If the future is dropped after it was polled, the write may be done or not. The transaction ends
/// by itself.
pub async fn execute(
    client: &mut Client,
    statement: &str,
    params: &[Param<'_>],
    token: Token,
) -> Result<u64> {
    let client = &*client;
    in_transaction(client, client.execute_typed(statement, params), token).await
}

/// Runs one statement under the token in a transaction of its own, and returns its rows, as those
/// of `UPDATE … RETURNING`. It costs one round trip.
///
/// A column of a type that the driver does not know, such as an enum, makes the driver ask for the
/// type after the write, by named statements. Cast it to `text`.
///
/// # Errors
///
/// As [`execute`].
///
/// # Cancel safety
///
/// As [`execute`].
pub async fn query(
    client: &mut Client,
    statement: &str,
    params: &[Param<'_>],
    token: Token,
) -> Result<Vec<Row>> {
    let client = &*client;
    in_transaction(client, client.query_typed(statement, params), token).await
}

/// Sends the beginning, the write and the end at once: the first poll of each future puts its
/// message into the queue of the connection. A failed write turns the end into a rollback.
async fn in_transaction<T>(
    client: &Client,
    write: impl Future<Output = Result<T, DriverError>>,
    token: Token,
) -> Result<T> {
    let first = format!("BEGIN; {}", set_local(token));
    let all = join3(client.batch_execute(&first), write, client.batch_execute("COMMIT"));
    let (begun, written, committed) = all.await;
    begun.map_err(into_error)?;
    let written = written.map_err(into_error)?;
    committed.map_err(into_error)?;
    Ok(written)
}

/// A token is a number: its digits are safe inside of a statement.
fn set_local(token: Token) -> String {
    format!("SET LOCAL {SETTING} = '{token}'")
}
