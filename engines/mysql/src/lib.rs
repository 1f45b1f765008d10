//! Locks kept by MariaDB, 10.11 and later, or MySQL, 8.0.29 and later: a row for each line.
//!
//! ```no_run
//! # async fn pay() -> tenure_core::Result<()> {
//! let locks = tenure_mysql::connect("mariadb://app:secret@localhost/shop").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! # Ok(())
//! # }
//! ```
//!
//! The holders and waiters of a key are its line, which is one row. Each join, renewal or leave is
//! one or two calls of a procedure. Waiters are woken by `KILL QUERY`.
//!
//! The README of this crate describes the setup of a server, and what is not promised.
//! [`Locks::guarantees`] returns what the connected server promises.
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `lib` | the entry points; nothing else is needed to use the engine |
//! | `description`, `url`, `settings` | the engine's description, its URLs and its settings |
//! | `connection` | how a connection is opened, and the task that owns it |
//! | `primary` | the server that takes writes, and a statement on it |
//! | `notices` | the notices between clients, and the connection that listens |
//! | `facts` | the results of the start-up check: guarantees, refusals, warnings |
//! | `sql`, `schema` | the statements, and the tables |
//! | `renewals` | renewals of several lines in one statement |
//! | `store` | `RecordStore`, the contract of a store of records |
//! | `transaction` | the holder's own transaction, which keeps its successor out |
//! | `trouble` | error messages |
//!
//! A join behind one holder: `RecordEngine::join` (`tenure-record`) calls `MysqlStore::step`
//! (`store.rs`). `step_alone` calls `join_1` by `query` (`primary.rs`), which hands the text to the
//! `ConnectionTask` (`connection.rs`). The answer is the record. `decide` puts the ticket into the
//! line, and `write` calls `write_1`. A leave with one waiter is the same with `leave_1`. Then
//! `ring_1` ends the sleep of the waiter's client, and its `NoticeReader::run` (`notices.rs`)
//! delivers the notice.

mod connection;
mod description;
mod facts;
mod notices;
mod primary;
mod renewals;
mod schema;
mod settings;
mod sql;
mod store;
mod transaction;
mod trouble;
mod url;

use std::sync::Arc;

use tenure_core::layers::{OnRuntime, Retries};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};
use tenure_record::RecordEngine;

pub use description::DESCRIPTION;
/// The driver, whose transactions [`HoldIn`] uses.
pub use mysql_async;
pub use settings::Settings;
pub use store::MysqlStore;
pub use tenure_kit::tls::{Pem, Tls};
pub use transaction::{HeldLine, HoldIn};

/// Retries of a verb whose answer was lost. Together they outlast a restart of the server.
const RETRIES: Retries = Retries::times(6);
/// Maximum statements of a client that wait or are in flight.
const CALLS_MAX: usize = 64;

/// Returns the locks of the database that this URL names:
/// `mariadb://USER:PASSWORD@HOST,HOST/DATABASE`. The options are in the README. [`Settings`] are
/// the same in code.
///
/// # Errors
///
/// [`Invalid`](tenure_core::ErrorKind::Invalid) if the URL is wrong,
/// [`Unavailable`](tenure_core::ErrorKind::Unavailable) if no server that takes writes can be
/// reached, and [`Rejected`](tenure_core::ErrorKind::Rejected) if the server refuses the user, or
/// cannot keep locks.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    Settings::from_url(url)?.connect().await
}

/// Returns the engine alone, without [`Locks`]. Its tasks run on the runtime `host`.
///
/// # Errors
///
/// As [`connect()`].
pub async fn engine(
    url: &str,
    host: Arc<dyn Runtime>,
) -> Result<OnRuntime<RecordEngine<MysqlStore>>> {
    engine_with(Settings::from_url(url)?, host).await
}

async fn open(settings: Settings) -> Result<Locks> {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let engine = engine_with(settings, host.clone()).await?;
    Ok(Locks::with_retries(engine, host, RETRIES))
}

async fn engine_with(
    settings: Settings,
    host: Arc<dyn Runtime>,
) -> Result<OnRuntime<RecordEngine<MysqlStore>>> {
    let runtime = host.clone();
    let opening =
        async move { Ok(RecordEngine::new(MysqlStore::open(settings).await?, runtime, CALLS_MAX)) };
    OnRuntime::make(host, opening).await
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeOfMysql;
