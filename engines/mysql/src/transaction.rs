//! The holder's own transaction: no successor is served while it is open.

use mysql_async::prelude::Queryable as _;
use mysql_async::{Row, Transaction};
use tenure_core::{
    Error, Key, Leadership, LeaseHandle, Loss, MutexGuard, Result, Token, WriteGuard,
};

use crate::settings::{PREFIX, checked_prefix};
use crate::sql::bytes_literal;
use crate::trouble;

/// Holds a lock in a transaction of the holder's own, in the database that keeps the lock.
///
/// A holder that was paused too long may overwrite the writes of its successor. Within this
/// transaction it cannot: [`hold_in`](Self::hold_in) compares the token with that of the last
/// ticket that was served, and locks the row of the table `tenure_hold` that has it. The engine
/// serves the next ticket only after the transaction has ended. The lease may end meanwhile.
/// Renewals go on, because they write another row.
///
/// ```no_run
/// use tenure_mysql::HoldIn as _;
/// use tenure_mysql::mysql_async::prelude::Queryable as _;
/// use tenure_mysql::mysql_async::{Conn, TxOpts};
///
/// # async fn pay(connection: &mut Conn) -> Result<(), Box<dyn std::error::Error>> {
/// // The connection is of `Conn::from_url("mysql://app:secret@localhost/shop")`.
/// let locks = tenure_mysql::connect("mariadb://app:secret@localhost/shop").await?;
/// let guard = locks.mutex("invoices/42").lock().await?;
/// let mut transaction = connection.start_transaction(TxOpts::default()).await?;
/// if let Err(error) = guard.hold_in(&mut transaction).await {
///     transaction.rollback().await?;
///     return Err(error.into());
/// }
/// transaction.query_drop("UPDATE invoices SET paid = true WHERE id = 42").await?;
/// transaction.commit().await?;
/// guard.release().await?; // After the commit: a release before it serves no waiter.
/// # Ok(())
/// # }
/// ```
///
/// [`HeldLine`] is the same for tables with another prefix, and as SQL for other clients.
///
/// It is for exclusive locks: mutexes, writers and leaders. Readers and holders of permits have no
/// token to compare, so their guards do not have this method:
///
/// ```compile_fail,E0599
/// # use tenure_mysql::{HoldIn as _, mysql_async::Transaction};
/// # async fn f(reader: tenure_core::ReadGuard, mut transaction: Transaction<'_>) {
/// reader.hold_in(&mut transaction).await;
/// # }
/// ```
///
/// # What is not promised
///
/// * **A transaction that stays open keeps the line.** Waiters of this key wait for its end, also
///   if its client is paused. Set `idle_transaction_timeout` in MariaDB; MySQL has `wait_timeout`.
/// * **A dropped [`Transaction`] stays open** until its connection is used again or closed. So call
///   its `rollback`, in particular after an error of `hold_in`.
/// * **Commit before the release.** A release while the transaction is open serves no waiting
///   ticket. The waiter is served at its next renewal after the end of the transaction.
/// * **A lock that ended while no other ticket was served** may still be held: the database cannot
///   tell. The next ticket is served after the transaction, so nothing is overwritten.
/// * **Reads before `hold_in`** may be older than the lock. Call it first: under
///   `REPEATABLE READ`, the default, the first plain read fixes what later plain reads see. If that
///   read was before the acquisition of the lock, `hold_in` fails with `Lost`. With several locks,
///   acquire all of them before the first `hold_in`.
/// * **The end of the transaction ends the hold**: a deadlock, error 1020, DDL, a second `BEGIN`,
///   a rollback to a savepoint from before `hold_in`. Later statements commit by themselves. Stop
///   at the first error.
/// * **Another database** may have a line with the same key and token. The transaction must be in
///   the database that keeps the lock.
pub trait HoldIn {
    /// Returns the line and the token, for a prefix other than `tenure_` or for another client.
    fn held_line(&self) -> HeldLine;

    /// Holds the line until the transaction ends. It costs one round trip.
    ///
    /// # Errors
    ///
    /// [`Lost`](tenure_core::ErrorKind::Lost) if the client knows that the lock is lost, or a
    /// further ticket was served, or no transaction is open (in MariaDB): roll back.
    /// [`Unavailable`](tenure_core::ErrorKind::Unavailable) if the transaction has failed and may
    /// be repeated, and [`Rejected`](tenure_core::ErrorKind::Rejected) if the server refuses the
    /// statement.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the transaction may hold the line.
    fn hold_in(&self, transaction: &mut Transaction<'_>)
    -> impl Future<Output = Result<()>> + Send;
}

/// The line and the token of an exclusive holder, for a transaction that [holds it](HoldIn).
///
/// Any client can execute its [`statement`](Self::statement) in a transaction. With sqlx:
///
/// ```text
/// let line = guard.held_line();
/// let held = sqlx::query(line.statement()).bind(line.key()).bind(line.token());
/// if held.fetch_optional(&mut *transaction).await?.is_none() { /* the lock is lost: roll back */ }
/// ```
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
        Self { key, token, statement: statement(PREFIX) }
    }

    /// Sets the prefix of the tables: `tenure_` by default.
    ///
    /// # Errors
    ///
    /// As [`Settings::prefix`](crate::Settings::prefix).
    pub fn prefix(self, prefix: impl Into<String>) -> Result<Self> {
        Ok(Self { statement: statement(&checked_prefix(prefix.into())?), ..self })
    }

    /// Returns the SQL, with `?` for the two parameters. It returns one row if the transaction
    /// holds the line now, and none if the lock is lost: then roll back.
    pub fn statement(&self) -> &str {
        &self.statement
    }

    /// Returns the first parameter, which are bytes.
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
    pub async fn hold_in(&self, transaction: &mut Transaction<'_>) -> Result<()> {
        // Literals save the round trip that prepares a statement.
        let [key, token] = [bytes_literal(self.key()), self.token().to_string()];
        let text = self.statement.replacen('?', &key, 1).replacen('?', &token, 1);
        let held: Result<Option<Row>, _> = transaction.query_first(text).await;
        match held.map_err(|error| trouble::in_transaction(&error).with_key(&self.key))? {
            None => Err(Error::lost(Loss::Broken).with_key(&self.key)),
            Some(_) => Ok(()),
        }
    }
}

/// A further ticket is served by a procedure that locks the row with `FOR UPDATE SKIP LOCKED`.
///
/// The inner query is a plain read, and its `LIMIT` keeps the server from merging it. The outer
/// query locks the row only if the inner one found it: a locking read of an absent key would lock
/// the gap, and the joins of other keys in it would wait. `SERIALIZABLE` makes the inner query a
/// locking read. The outer query sees the newest row, also in a transaction with an old snapshot.
///
/// MariaDB alone knows whether a transaction is open. Without one, a lock ends with its statement.
fn statement(prefix: &str) -> String {
    format!(
        "SELECT 1 AS held FROM (SELECT seen.`key`, seen.holder FROM `{prefix}hold` seen \
         WHERE seen.`key` = ? AND seen.holder = ? LIMIT 1) seen \
         STRAIGHT_JOIN `{prefix}hold` newest \
         ON newest.`key` = seen.`key` AND newest.holder = seen.holder \
         /*M! AND @@in_transaction */ LOCK IN SHARE MODE"
    )
}

async fn hold(line: HeldLine, held: LeaseHandle, transaction: &mut Transaction<'_>) -> Result<()> {
    held.check()?;
    let result = line.hold_in(transaction).await;
    if result.as_ref().is_err_and(Error::is_lost) {
        // The client may know the reason now.
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
                transaction: &mut Transaction<'_>,
            ) -> impl Future<Output = Result<()>> + Send {
                hold(self.held_line(), self.handle(), transaction)
            }
        })*
    };
}

hold_in! { MutexGuard WriteGuard Leadership }
