//! Writes to tables in PostgreSQL that an old holder of a lock cannot make, because its token is
//! old.
//!
//! A lock cannot stop a holder that is paused between its check and its write and resumes after
//! another holder took over. Its token can: it is older than the new holder's. A [`Fence`] is a
//! trigger on a table. Each row keeps the token of its last writer in the column
//! [`tenure_token`](COLUMN), and the trigger refuses a write with an older token. The check and the
//! write are one step. The statements of the program do not change, so this works below any ORM.
//!
//! ```no_run
//! use tenure_fence_postgres::tokio_postgres::{Client, types::Type};
//! use tenure_fence_postgres::{Fence, into_error, query, set_token};
//!
//! # async fn run(locks: tenure_core::Locks, mut client: Client) -> tenure_core::Result<()> {
//! Fence::new("shop", "invoices")?.check(&client).await?;               // once, at the start
//!
//! let guard = locks.mutex("invoices/42").lock().await?;
//! // Claims the row before the first read, and reads it.
//! let claim = "UPDATE shop.invoices SET tenure_token = tenure_token WHERE id = $1 RETURNING paid";
//! let rows = query(&mut client, claim, &[(&42, Type::INT4)], guard.token()).await?;
//!
//! // Any statements under the token, in a transaction of your own.
//! let tx = client.transaction().await.map_err(into_error)?;
//! set_token(&tx, guard.token()).await?;
//! let pay = "UPDATE shop.invoices SET paid = true WHERE id = 42";
//! tx.batch_execute(pay).await.map_err(into_error)?;
//! tx.commit().await.map_err(into_error)?;
//! # Ok(())
//! # }
//! ```
//!
//! A refused write is an error of the kind [`Lost`](tenure_core::ErrorKind::Lost): stop, a newer
//! holder is at work. [`Stale::of`] returns the newer token. The transaction cannot commit.
//!
//! # How to use it
//!
//! * **Create the fence in a migration**, with the text of [`Fence::sql`]. PostgreSQL 14 or later.
//! * **One lock for one row.** Tokens of different locks do not compare. All programs that write
//!   the row take the same lock first. One lock may cover many rows.
//! * **Claim before the first read.** Without a claim, an old holder can change the row between the
//!   read and the write of the new holder. An update that changes nothing is a claim. A transaction
//!   that sets its token, reads with `FOR UPDATE` and writes needs none.
//! * **Several locks in one transaction**: call [`set_token`] again before the statements of the
//!   next lock.
//! * **Exclusive locks only**: a mutex, a write lock, an election. Readers and holders of permits
//!   hold at the same time, so they have no token.
//!
//! # What is not promised
//!
//! * **A new row has no token to compare with, and a deleted row forgets its token.** An old holder
//!   can insert it. Claim a row that stays, such as a parent row, in the same transaction: its
//!   refusal rolls back the whole transaction.
//! * **Reads are not refused**, and neither is `TRUNCATE`.
//! * **A disabled trigger checks nothing**: `DISABLE TRIGGER`,
//!   `session_replication_role = replica`, and the subscriber's side of a logical replication.
//!   [`Fence::check`] finds the first two.
//! * **A fence orders holders, not the writes of one holder.** The same token may write again, and
//!   a write whose answer was lost may have been done.
//! * **A fence is no access control.** A program may set any token.
//! * **A holder that is frozen inside a transaction blocks newer holders** of the same rows until
//!   its transaction ends. Set `idle_in_transaction_session_timeout`.
//! * **A lock that moves to another store gets other tokens.** They may be smaller. Set the column
//!   to 0 with the trigger disabled, while no program writes.
//!
//! The checks are right under each isolation level. Under `REPEATABLE READ` and `SERIALIZABLE` a
//! write that waited for another one gets the error 40001, as without a fence. No call of this
//! crate names a prepared statement, so all of them pass through a transaction pooler.

mod trouble;
mod write;

use tenure_core::{Error, Result};
use tokio_postgres::GenericClient;
use tokio_postgres::types::{ToSql, Type};

pub use tenure_core::Stale;
/// The driver, whose clients and transactions this crate uses.
pub use tokio_postgres;
pub use trouble::into_error;
pub use write::{execute, query, set_token};

/// The column with the token of a row's last writer.
pub const COLUMN: &str = "tenure_token";
/// The setting of PostgreSQL with the token of a transaction.
pub const SETTING: &str = "tenure.token";
/// SQLSTATE of a write that is refused because of a newer token. Its detail is `41 < 42`: the
/// token of the write, and the newest one. Its constraint is `tenure_fence`.
pub const STALE: &str = "TN001";
/// SQLSTATE of a write that is refused because its transaction has no token.
pub const NO_TOKEN: &str = "TN002";
/// The name of the trigger on a table, and of its function in the schema of the table.
const NAME: &str = "tenure_fence";
/// Maximum length of an identifier. PostgreSQL cuts longer ones.
const IDENTIFIER_BYTES_MAX: usize = 63;
/// Key of the advisory lock for installations: `CREATE OR REPLACE` fails beside another one.
const INSTALLATIONS: i64 = 0x7465_6e75_7265;

/// A fence on a table: a column with the newest token of each row, and a trigger that compares it.
///
/// ```text
///   holder 41 ──write──▶ ┌────┬──────┬──────────────┐
///                        │ 42 │ open │ token: 41    │
///   holder 42 ──write──▶ │ 42 │ paid │ token: 42    │
///   holder 41 ──write──╳ └────┴──────┴──────────────┘
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    schema: String,
    table: String,
}

impl Fence {
    /// Names the table. Both names are as in the catalog: unquoted, and lower case unless they were
    /// created with quotes.
    ///
    /// # Errors
    ///
    /// A name is empty, is longer than 63 bytes, or has a NUL.
    pub fn new(schema: impl Into<String>, table: impl Into<String>) -> Result<Self> {
        let (schema, table) = (schema.into(), table.into());
        for name in [&schema, &table] {
            if name.is_empty() || name.len() > IDENTIFIER_BYTES_MAX || name.contains('\0') {
                return Err(Error::invalid(format!(
                    "{name:?} cannot be the name of a schema or a table: it needs 1 to {IDENTIFIER_BYTES_MAX} bytes without NUL"
                )));
            }
        }
        Ok(Self { schema, table })
    }

    /// Returns the SQL that creates the fence, for a migration. It may run again.
    ///
    /// It locks the table for a moment, and rewrites no row. The rows of the table start with the
    /// token 0, which is older than any. From then on each write needs a token.
    pub fn sql(&self) -> String {
        let (schema, table) = (quoted(&self.schema), self.quoted());
        // `search_path` is fixed, so that no operator of another schema compares the tokens.
        format!(
            r"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {COLUMN} bigint NOT NULL DEFAULT 0;

CREATE OR REPLACE FUNCTION {schema}.{NAME}() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $tenure$
DECLARE
  -- After the end of a transaction its setting is the empty string.
  token bigint := nullif(current_setting('{SETTING}', true), '');
BEGIN
  IF (token > 0) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = '{NO_TOKEN}', SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('a write to %I.%I needs the token of a lock', TG_TABLE_SCHEMA, TG_TABLE_NAME),
      HINT = 'Begin the transaction with SET LOCAL {SETTING} and the token.';
  END IF;
  IF TG_OP <> 'INSERT' AND token < OLD.{COLUMN} THEN
    RAISE EXCEPTION USING ERRCODE = '{STALE}', CONSTRAINT = '{NAME}',
      SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME,
      MESSAGE = format('a newer holder of the lock wrote this row of %I.%I', TG_TABLE_SCHEMA, TG_TABLE_NAME),
      DETAIL = format('%s < %s', token, OLD.{COLUMN});
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  NEW.{COLUMN} := token;
  RETURN NEW;
END
$tenure$;

CREATE OR REPLACE TRIGGER {NAME} BEFORE INSERT OR UPDATE OR DELETE ON {table}
FOR EACH ROW EXECUTE FUNCTION {schema}.{NAME}();
"
        )
    }

    /// Creates the fence in one transaction. It may run again.
    ///
    /// It waits for all transactions that use the table, and later statements on the table wait
    /// behind it. A busy table gets its fence in a migration.
    ///
    /// # Errors
    ///
    /// `Rejected` if the table does not exist or is not the caller's. `Unavailable` if there was no
    /// answer.
    pub async fn install(&self, client: &impl GenericClient) -> Result<()> {
        let alone = format!("SELECT pg_catalog.pg_advisory_xact_lock({INSTALLATIONS});");
        client.batch_execute(&format!("{alone}\n{}", self.sql())).await.map_err(into_error)
    }

    /// Checks that the table has the fence, and that it is enabled in this session. Call it at the
    /// start of a program: a write to a table without a fence is not refused.
    ///
    /// # Errors
    ///
    /// `Rejected` if the table has no fence or it is disabled. `Unavailable` if there was no
    /// answer.
    pub async fn check(&self, client: &impl GenericClient) -> Result<()> {
        let sql = "SELECT t.tgenabled = 'A' OR t.tgenabled = 'O' \
                   AND pg_catalog.current_setting('session_replication_role') <> 'replica' \
                   FROM pg_catalog.pg_trigger t \
                   JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid \
                   JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
                   WHERE t.tgname = $1 AND c.relname = $2 AND n.nspname = $3";
        let names: [(&(dyn ToSql + Sync), Type); 3] =
            [(&NAME, Type::TEXT), (&self.table, Type::TEXT), (&self.schema, Type::TEXT)];
        let rows = client.query_typed(sql, &names).await.map_err(into_error)?;
        let is_enabled = rows.first().map(|row| row.try_get(0)).transpose().map_err(into_error)?;
        let table = self.quoted();
        match is_enabled {
            Some(true) => Ok(()),
            Some(false) => Err(Error::rejected(format!(
                "the fence of {table} is disabled, and old holders can write: run `ALTER TABLE {table} ENABLE TRIGGER {NAME}`"
            ))),
            None => Err(Error::rejected(format!(
                "the table {table} has no fence, and old holders can write: run the SQL of `Fence::sql` in a migration"
            ))),
        }
    }

    fn quoted(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.table))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeOfFence;
