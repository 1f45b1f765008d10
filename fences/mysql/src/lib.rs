//! Fences for tables in MariaDB or MySQL: a trigger refuses updates and deletes with an older token
//! than that of the row's last writer.
//!
//! A lock cannot stop a holder that is paused between its check and its write and resumes after
//! another holder took over. Its token can: it is older than the new holder's. A [`Fence`] is three
//! triggers on a table. Each row keeps the token of its last writer in the column
//! [`tenure_token`](COLUMN), and a trigger refuses a write with an older token. The check and the
//! write are one step. The statements of the program do not change, so this works below any ORM:
//! the column is invisible to `SELECT *` and to an `INSERT` without a list of columns.
//!
//! ```no_run
//! use tenure_fence_mysql::mysql_async::{Conn, prelude::Queryable as _};
//! use tenure_fence_mysql::{Fence, into_error};
//!
//! # async fn run(locks: tenure_core::Locks, mut connection: Conn) -> tenure_core::Result<()> {
//! let fence = Fence::new("shop", "invoices")?;
//! fence.check(&mut connection).await?; // once, at the start
//!
//! let guard = locks.mutex("invoices/42").lock().await?;
//! let mut transaction = fence.begin(&mut connection, guard.token()).await?;
//! // Claims the row before the first read.
//! let claim = "UPDATE shop.invoices SET tenure_token = tenure_token WHERE id = 42";
//! transaction.query_drop(claim).await.map_err(into_error)?;
//! let pay = "UPDATE shop.invoices SET paid = true WHERE id = 42";
//! transaction.query_drop(pay).await.map_err(into_error)?;
//! transaction.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A refused write is an error of the kind [`Lost`](tenure_core::ErrorKind::Lost): stop and roll
//! back, a newer holder is at work. [`Stale::of`] returns the newer token.
//!
//! # How a transaction has its token
//!
//! The servers have no setting that ends with a transaction: a user variable stays until the
//! session ends. So the token is in a row of the table `tenure_fence_session`, which
//! [`Fence::begin`] inserts and [`FencedTransaction::commit`] deletes. Other sessions see the row
//! under `READ UNCOMMITTED` only, unless a statement such as `ALTER TABLE` commits it: then it
//! stays. A rollback removes it, also one by the server after a deadlock. Its id is in the user
//! variable `@tenure_fence`.
//!
//! # How to use it
//!
//! * **Create the fence in a migration**, with the text of [`Fence::sql`] for the command `mariadb`
//!   or `mysql`, or with [`Fence::statements`].
//! * **One lock for one row.** Tokens of different locks do not compare. All programs that write
//!   the row take the same lock first. One lock may cover many rows.
//! * **Claim before the first read.** Without a claim, an old holder can change the row between the
//!   read and the write of the new holder. An update that changes nothing is a claim.
//! * **Several locks in one transaction**: call [`FencedTransaction::set_token`] before the
//!   statements of the next lock. A rollback to an earlier savepoint restores the earlier token.
//! * **Several tables of one database** share the token: begin with the fence of any of them.
//! * **Exclusive locks only**: a mutex, a write lock, an election. Readers and holders of permits
//!   hold at the same time, so they have no token.
//!
//! # What is not promised
//!
//! * **A refused statement does not end its transaction.** Earlier statements would be committed:
//!   roll back.
//! * **A new row has no token to compare with, and a deleted row forgets its token.** An old holder
//!   can insert it. Claim a row that stays, such as a parent row, in the same transaction.
//! * **Reads are not refused**, and neither are `TRUNCATE`, `DROP PARTITION`, a renamed copy of the
//!   table, and changes that a foreign key makes in another table: those execute no trigger.
//! * **A `COMMIT` by hand without the `DELETE`** leaves the token to the later transactions of its
//!   session: one without a token of its own is compared with that token, and not refused.
//! * **A fence orders holders, not the writes of one holder.** The same token may write again, and
//!   a write whose answer was lost may have been done.
//! * **A fence is no access control.** A program may set any token.
//! * **A holder that is frozen inside a transaction blocks newer holders** of the same rows until
//!   its transaction ends.
//! * **A lock that moves to another store gets other tokens.** They may be smaller. Set the column
//!   to 0 without the triggers, while no program writes.

mod transaction;
mod trouble;

use mysql_async::Conn;
use mysql_async::prelude::Queryable as _;
use tenure_core::{Error, Result};

/// The driver, whose connections and transactions this crate uses.
pub use mysql_async;
pub use tenure_core::Stale;
pub use transaction::FencedTransaction;
pub use trouble::into_error;

/// The column with the token of a row's last writer. It is invisible: a query has to name it.
pub const COLUMN: &str = "tenure_token";
/// SQLSTATE of a write that is refused because of a newer token. Its message ends with `41 < 42`:
/// the token of the write, and the newest one.
pub const STALE: &str = "TN001";
/// SQLSTATE of a write that is refused because its transaction has no token.
pub const NO_TOKEN: &str = "TN002";
/// The events that have a trigger each.
const EVENTS: [&str; 3] = ["insert", "update", "delete"];
/// Maximum length of a name of a table, in characters. With `tenure_insert_` in front, it is the
/// name of a trigger, which has at most 64.
const TABLE_CHARS_MAX: usize = 50;
/// Maximum length of a name of a database, in characters.
const DATABASE_CHARS_MAX: usize = 64;
/// Error: the table has this column already. MySQL has no `ADD COLUMN IF NOT EXISTS`.
const DUPLICATE_COLUMN: u16 = 1060;

/// A fence on a table: a column with the newest token of each row, and triggers that compare it.
///
/// ```text
///   holder 41 ──write──▶ ┌────┬──────┬──────────────┐
///                        │ 42 │ open │ token: 41    │
///   holder 42 ──write──▶ │ 42 │ paid │ token: 42    │
///   holder 41 ──write──╳ └────┴──────┴──────────────┘
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    database: String,
    table: String,
}

impl Fence {
    /// Names the table.
    ///
    /// # Errors
    ///
    /// A name is empty or has a NUL, or the name of the table has more than 50 characters.
    pub fn new(database: impl Into<String>, table: impl Into<String>) -> Result<Self> {
        let (database, table) = (database.into(), table.into());
        for (name, most) in [(&database, DATABASE_CHARS_MAX), (&table, TABLE_CHARS_MAX)] {
            if name.is_empty() || name.chars().count() > most || name.contains('\0') {
                return Err(Error::invalid(format!(
                    "{name:?} cannot be the name of a database or a table with a fence: it needs 1 to {most} characters without NUL"
                )));
            }
        }
        Ok(Self { database, table })
    }

    /// Returns the SQL that creates the fence, as a script for the command `mariadb` or `mysql`.
    ///
    /// In MariaDB it may run again. In MySQL, a second run stops at the column that is there. The
    /// rows of the table start with the token 0, which is older than any. From then on each write
    /// needs a token.
    pub fn sql(&self) -> String {
        let statements = self.statements().join("\n;;\n");
        format!("DELIMITER ;;\n{statements}\n;;\nDELIMITER ;\n")
    }

    /// Returns the same SQL as [`sql`](Self::sql) as single statements, for a migration by a
    /// driver.
    pub fn statements(&self) -> Vec<String> {
        let text = include_str!("fence.sql").replace("{no_token}\n", NO_TOKEN_SQL);
        let text = text.replace("{stale}\n", STALE_SQL).replace("{of_token}\n", OF_TOKEN_SQL);
        // The names come last: they may have braces.
        let fill = |text: &str| {
            let parts = text.split_inclusive('}').map(|part| {
                let Some((before, name)) = part.rsplit_once('{') else { return part.to_owned() };
                let name = match name.trim_end_matches('}') {
                    "database" => quoted(&self.database),
                    "table" => self.quoted(),
                    event => format!("{}.{}", quoted(&self.database), quoted(&self.trigger(event))),
                };
                format!("{before}{name}")
            });
            parts.collect::<String>()
        };
        let statements = text.split("\n;;\n").filter(|statement| !statement.is_empty());
        statements.map(fill).collect()
    }

    /// Creates the fence. It may run again.
    ///
    /// It waits for all transactions that use the table, and later statements on the table wait
    /// behind it. A busy table gets its fence in a migration. Each statement commits, also a
    /// transaction of the caller's.
    ///
    /// # Errors
    ///
    /// `Rejected` if the user lacks the rights, and `Invalid` if the table does not exist.
    /// `Unavailable` if there was no answer.
    pub async fn install(&self, connection: &mut Conn) -> Result<()> {
        for statement in self.statements() {
            match connection.query_drop(statement).await {
                Ok(()) => {}
                Err(mysql_async::Error::Server(error)) if error.code == DUPLICATE_COLUMN => {}
                Err(error) => return Err(into_error(error)),
            }
        }
        Ok(())
    }

    /// Checks that the table has the fence, and that its engine is `InnoDB`. Call it at the start
    /// of a program: a write to a table without a fence is not refused.
    ///
    /// # Errors
    ///
    /// `Rejected` if the table has no fence that this user may see, or cannot roll a write back.
    /// `Unavailable` if there was no answer.
    pub async fn check(&self, connection: &mut Conn) -> Result<()> {
        let sql = "SELECT (SELECT count(*) FROM information_schema.TRIGGERS \
                   WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ? \
                   AND ACTION_TIMING = 'BEFORE' AND TRIGGER_NAME IN (?, ?, ?)), \
                   (SELECT ENGINE FROM information_schema.TABLES \
                   WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?)";
        let [insert, update, delete] = EVENTS.map(|event| self.trigger(event));
        let (database, table) = (&self.database, &self.table);
        let names = (database, table, insert, update, delete, database, table);
        let row: Option<(usize, Option<String>)> =
            connection.exec_first(sql, names).await.map_err(into_error)?;
        let (triggers, engine) = row.unwrap_or_default();
        let table = self.quoted();
        if triggers < EVENTS.len() {
            return Err(Error::rejected(format!(
                "the table {table} has no fence that this user may see, and old holders can write: run the SQL of `Fence::sql` in a migration, and grant TRIGGER to the user"
            )));
        }
        if engine.as_deref() != Some("InnoDB") {
            return Err(Error::rejected(format!(
                "the table {table} has the engine {}, which cannot roll back what a refused statement wrote: run `ALTER TABLE {table} ENGINE=InnoDB`",
                engine.unwrap_or_default()
            )));
        }
        Ok(())
    }

    /// The name of a trigger.
    fn trigger(&self, event: &str) -> String {
        format!("tenure_{event}_{}", self.table)
    }

    fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.database), quoted(&self.table))
    }
}

/// The token of the transaction. MariaDB alone knows whether a transaction is open.
const OF_TOKEN_SQL: &str = "  DECLARE of_token BIGINT DEFAULT (
    SELECT s.token FROM {database}.tenure_fence_session s
    WHERE s.id = @tenure_fence /*M! AND @@in_transaction */);
";
/// The refusal of a write without a token. In a trigger, only variables may be texts of errors.
const NO_TOKEN_SQL: &str = "    SIGNAL SQLSTATE 'TN002'
      SET MESSAGE_TEXT = 'a write to this table needs the token of a lock';
";
/// The refusal of a write with an older token.
const STALE_SQL: &str = "    SET of_text = concat(
      'a newer holder of the lock wrote this row: ', of_token, ' < ', OLD.tenure_token);
    SIGNAL SQLSTATE 'TN001' SET MESSAGE_TEXT = of_text;
";

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeOfMysqlFence;
