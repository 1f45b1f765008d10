//! The holder's own transaction: no successor is served while it is open.

use tenure_core::{
    Error, Key, Leadership, LeaseHandle, Loss, MutexGuard, Result, Token, WriteGuard,
};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use crate::settings::{SCHEMA, checked_schema, quoted};
use crate::trouble;

/// Holds a lock in a transaction of the holder's own, in the database that keeps the lock.
///
/// A holder that was paused too long may overwrite the writes of its successor. Within this
/// transaction it cannot: [`hold_in`](Self::hold_in) compares the token and locks the row of the
/// line, and the engine serves the next ticket only after the transaction has ended. The lease may
/// end meanwhile. Renewals go on, because they change no key.
///
/// ```no_run
/// use tenure_postgres::{HoldIn as _, tokio_postgres};
///
/// # async fn pay(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let locks = tenure_postgres::connect("postgres://app:secret@localhost/shop").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let transaction = client.transaction().await?;
/// guard.hold_in(&transaction).await?; // An error drops the transaction, which rolls it back.
/// transaction.batch_execute("UPDATE invoices SET paid = true WHERE id = 42").await?;
/// transaction.commit().await?;
/// guard.release().await?; // After the commit: a release before it serves no waiter.
/// # Ok(())
/// # }
/// ```
///
/// [`HeldLine`] is the same for tables in another schema, and as SQL for other clients.
///
/// It is for exclusive locks: mutexes, writers and leaders. Readers and holders of permits have no
/// token to compare, so their guards do not have this method:
///
/// ```compile_fail,E0599
/// # use tenure_postgres::{HoldIn as _, tokio_postgres::Transaction};
/// # async fn f(reader: tenure_core::ReadGuard, transaction: Transaction<'_>) {
/// reader.hold_in(&transaction).await;
/// # }
/// ```
///
/// # What is not promised
///
/// * **A transaction that stays open keeps the line.** Waiters of this key wait for its end, also
///   if its client is paused. Set `idle_in_transaction_session_timeout`, or from PostgreSQL 17 on
///   `transaction_timeout`.
/// * **Commit before the release.** A release while the transaction is open serves no waiting
///   ticket. The waiter is served at its next renewal after the end of the transaction.
/// * **A lock whose lease has ended** passes, if no other ticket was served since. No ticket is
///   served before the end of the transaction, so nothing is overwritten. Call
///   [`check`](MutexGuard::check) first to stop earlier.
/// * **Statements before `hold_in`** may have read data that a successor has changed. Call it
///   first. Under `REPEATABLE READ` and `SERIALIZABLE` a transaction that began before the lock was
///   acquired gets `Lost`, although the lock is held.
/// * **Another database** may have a line with the same key and token. The transaction must be in
///   the database that keeps the lock.
pub trait HoldIn {
    /// Returns the line and the token, for a schema other than `tenure` or for another client.
    fn held_line(&self) -> HeldLine;

    /// Holds the line until the transaction ends. It costs one round trip.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the line has another holder or none: roll the
    /// transaction back. [`Unavailable`](tenure_core::ErrorKind::Unavailable) if the transaction
    /// has failed and may be repeated, and [`Rejected`](tenure_core::ErrorKind::Rejected) if the
    /// server refuses the statement.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the transaction may hold the line.
    fn hold_in(&self, transaction: &Transaction<'_>) -> impl Future<Output = Result<()>> + Send;
}

/// The line and the token of an exclusive holder, for a transaction that [holds it](HoldIn).
///
/// Any client can execute its [`statement`](Self::statement) in a transaction. With sqlx:
///
/// ```text
/// let line = guard.held_line();
/// let held = sqlx::query(line.statement()).bind(line.key()).bind(line.token());
/// let rows = held.persistent(false).fetch_all(&mut *transaction).await?;
/// if rows.is_empty() { /* the lock is lost: roll back */ }
/// ```
///
/// With Diesel: `sql_query(line.statement()).bind::<Bytea, _>(line.key()).bind::<BigInt,
/// _>(line.token()).execute(connection)?`, which returns the number of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLine {
    key: Key,
    token: Token,
    statement: String,
}

impl HeldLine {
    /// Returns the line of this key, for a token that came from another process. A guard has
    /// [`HoldIn::held_line`].
    pub fn new(key: Key, token: Token) -> Self {
        Self { key, token, statement: statement(SCHEMA) }
    }

    /// Sets the schema of the tables: `tenure` by default.
    ///
    /// # Errors
    ///
    /// As [`Settings::schema`](crate::Settings::schema).
    pub fn schema(self, schema: impl Into<String>) -> Result<Self> {
        Ok(Self { statement: statement(&checked_schema(schema.into())?), ..self })
    }

    /// Returns the SQL. It returns one row if the transaction holds the line now, and none if the
    /// lock is lost: then roll back.
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// Returns the first parameter, of the type `bytea`.
    pub fn key(&self) -> &[u8] {
        self.key.as_str().as_bytes()
    }

    /// Returns the second parameter, of the type `bigint`.
    pub fn token(&self) -> i64 {
        i64::try_from(self.token.get()).expect("the largest token fits")
    }

    /// Holds the line until the transaction ends. See [`HoldIn::hold_in`].
    ///
    /// # Errors
    ///
    /// Those of [`HoldIn::hold_in`].
    pub async fn hold_in(&self, transaction: &Transaction<'_>) -> Result<()> {
        let (key, token) = (self.key(), self.token());
        let parameters: [(&(dyn ToSql + Sync), Type); 2] =
            [(&key, Type::BYTEA), (&token, Type::INT8)];
        let held = transaction.query_typed(&self.statement, &parameters).await;
        match held.map_err(|error| trouble::in_transaction(&error).with_key(&self.key))?.len() {
            0 => Err(Error::lost(Loss::Broken).with_key(&self.key)),
            _ => Ok(()),
        }
    }
}

/// A further ticket is served by a statement that locks the row `FOR UPDATE`, which waits for `FOR
/// KEY SHARE`. A renewal locks it `FOR NO KEY UPDATE`, which does not.
fn statement(schema: &str) -> String {
    format!(
        "SELECT 1 AS held FROM {}.line WHERE key = $1 AND holder = $2 FOR KEY SHARE",
        quoted(schema)
    )
}

async fn hold(line: HeldLine, held: LeaseHandle, transaction: &Transaction<'_>) -> Result<()> {
    let result = line.hold_in(transaction).await;
    if result.as_ref().is_err_and(Error::is_lost) {
        // The client may know the reason.
        held.check()?;
    }
    result
}

macro_rules! hold_in {
    ($($Guard:ident)*) => {
        $(impl HoldIn for $Guard {
            fn held_line(&self) -> HeldLine {
                HeldLine::new(self.key().clone(), self.token())
            }

            fn hold_in(
                &self,
                transaction: &Transaction<'_>,
            ) -> impl Future<Output = Result<()>> + Send {
                hold(self.held_line(), self.handle(), transaction)
            }
        })*
    };
}

hold_in! { MutexGuard WriteGuard Leadership }
