//! Advisory locks that a transaction holds until its end.

use tenure_core::{Key, Result};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use crate::trouble;

/// The namespace of the hash.
const NAMESPACE: &str = "tenure";

/// Waits for the advisory lock of this key, which the transaction holds until its end.
///
/// It is PostgreSQL's own `pg_advisory_xact_lock`, for a program that needs exclusion within
/// transactions of one database and nothing else. It passes every pooler that keeps a transaction
/// on one connection.
///
/// ```no_run
/// use tenure_postgres::{tokio_postgres, transaction_lock};
///
/// # async fn pay(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let transaction = client.transaction().await?;
/// transaction_lock(&transaction, "invoices/42").await?;
/// transaction.batch_execute("UPDATE invoices SET paid = true WHERE id = 42").await?;
/// transaction.commit().await?; // The lock is free again.
/// # Ok(())
/// # }
/// ```
///
/// **It is no lock of Tenure**: it has no token, no lease, no line that can be inspected or broken,
/// and it excludes no [`Mutex`](tenure_core::Mutex) of the same key. It needs no tables. Other
/// databases of the server have locks of their own. The number of a key has 64 bits, so two keys
/// may share one, and strangers wait for each other; an advisory lock of another program may have
/// the same number, too.
///
/// Set `lock_timeout` for a limit of the wait. After it, the result is `Unavailable`, and the
/// transaction has failed: roll it back.
///
/// # Errors
///
/// [`Invalid`](tenure_core::ErrorKind::Invalid) if the key is empty or too long,
/// [`Unavailable`](tenure_core::ErrorKind::Unavailable) if the transaction has failed and may be
/// repeated, for example after a deadlock, and [`Rejected`](tenure_core::ErrorKind::Rejected) if
/// the server refuses the statement.
///
/// # Cancel safety
///
/// If the future is dropped, the transaction may hold the lock, or still wait for it.
pub async fn transaction_lock(transaction: &Transaction<'_>, key: &str) -> Result<()> {
    let number = transaction_lock_number(key)?;
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&number, Type::INT8)];
    let locked = transaction.query_typed("SELECT pg_advisory_xact_lock($1)", &parameters).await;
    locked.map(drop).map_err(|error| trouble::in_transaction(&error))
}

/// As [`transaction_lock`], without a wait. Returns whether the transaction holds the lock now.
///
/// # Errors
///
/// As [`transaction_lock`].
///
/// # Cancel safety
///
/// As [`transaction_lock`].
pub async fn try_transaction_lock(transaction: &Transaction<'_>, key: &str) -> Result<bool> {
    let number = transaction_lock_number(key)?;
    let parameters: [(&(dyn ToSql + Sync), Type); 1] = [(&number, Type::INT8)];
    let statement = "SELECT pg_try_advisory_xact_lock($1)";
    let locked = transaction.query_typed_one(statement, &parameters).await;
    let locked = locked.and_then(|row| row.try_get(0));
    locked.map_err(|error| trouble::in_transaction(&error))
}

/// Returns the number of the advisory lock of this key, for `pg_advisory_xact_lock` in other
/// clients. It does not change between versions.
///
/// It is the first 8 bytes of the SHA-256 of `tenure`, a zero byte and the key. In SQL:
///
/// ```text
/// SELECT ('x' || encode(substr(sha256('tenure\000'::bytea || convert_to('invoices/42', 'UTF8')),
///     1, 8), 'hex'))::bit(64)::bigint
/// ```
///
/// ```
/// # fn main() -> tenure_core::Result<()> {
/// assert_eq!(tenure_postgres::transaction_lock_number("invoices/42")?, 7_344_589_310_063_357_620);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Invalid`](tenure_core::ErrorKind::Invalid) if the key is empty or too long.
pub fn transaction_lock_number(key: &str) -> Result<i64> {
    let hash = Key::new(key)?.hash_in(NAMESPACE);
    Ok(hash[..8].iter().fold(0, |number, byte| number << 8 | i64::from(*byte)))
}
