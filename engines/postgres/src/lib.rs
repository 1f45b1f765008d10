//! Locks kept by PostgreSQL, 13 and later: a row for each line.
//!
//! ```no_run
//! # async fn pay() -> tenure_core::Result<()> {
//! let locks = tenure_postgres::connect("postgres://app:secret@localhost/shop").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! # Ok(())
//! # }
//! ```
//!
//! The line of a key is one row, and each verb is one or two statements. A release notifies the
//! next waiter by `NOTIFY`. The README of this crate describes the setup of a server, and what is
//! not promised. [`Locks::guarantees`] returns what the connected server promises.
//!
//! # Files
//!
//! | file | contents |
//! |---|---|
//! | `lib` | the entry points; nothing else is needed to use the engine |
//! | `description`, `url`, `settings` | the engine's description, its URLs and its settings |
//! | `socket`, `connection`, `primary` | how a connection to the primary is opened, given up and closed, and a statement on it |
//! | `facts` | the results of the start-up check: guarantees, refusals, warnings |
//! | `sql`, `schema` | the statements, and the tables |
//! | `store` | `RecordStore`, the contract of a store of records |
//! | `renewals` | renewals of several lines in one statement |
//! | `notices` | `LISTEN` and `NOTIFY` |
//! | `hold_in` | the holder's own transaction, which keeps its successor out |
//! | `transaction_lock` | advisory locks of a transaction |
//! | `trouble` | error messages |
//!
//! A join behind one holder: `RecordEngine::join` (`tenure-record`) calls `PostgresStore::step`
//! (`store.rs`). `step_alone` calls `join_1` by `query` (`primary.rs`), which returns the record.
//! `decide` puts the ticket into the line, and `write` calls `write_1`. A leave with one waiter
//! is the same with `leave_1`. Then `send` executes the notice, and `NotificationReader::run`
//! (`notices.rs`) of the waiter's client delivers it.

mod connection;
mod description;
mod facts;
mod hold_in;
mod notices;
mod primary;
mod renewals;
mod schema;
mod settings;
mod socket;
mod sql;
mod store;
mod transaction_lock;
mod trouble;
mod url;

use std::sync::Arc;

use tenure_core::layers::{OnRuntime, Retries};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};
use tenure_record::RecordEngine;

pub use description::DESCRIPTION;
pub use hold_in::{HeldLine, HoldIn};
pub use settings::Settings;
pub use store::PostgresStore;
pub use tenure_kit::tls::{Pem, Tls};
/// The driver, whose transactions [`HoldIn`] uses.
pub use tokio_postgres;
pub use transaction_lock::{transaction_lock, transaction_lock_number, try_transaction_lock};

/// Retries of a verb whose answer was lost. Together they outlast a restart of the server.
const RETRIES: Retries = Retries::times(6);
/// Maximum statements of a client in flight.
const CALLS_MAX: usize = 64;

/// Returns the locks of the database that this URL names:
/// `postgres://USER:PASSWORD@HOST,HOST/DATABASE`. The options are in the README. [`Settings`] are
/// the same in code.
///
/// # Errors
///
/// [`Invalid`](tenure_core::ErrorKind::Invalid) if the URL is wrong,
/// [`Unavailable`](tenure_core::ErrorKind::Unavailable) if no primary can be reached, and
/// [`Rejected`](tenure_core::ErrorKind::Rejected) if the server refuses the user, or cannot keep
/// locks.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    Settings::from_url(url)?.connect().await
}

/// Returns the engine alone. Its tasks run on the runtime `host`, which is not a server.
///
/// # Errors
///
/// As [`connect()`].
pub async fn engine(
    url: &str,
    host: Arc<dyn Runtime>,
) -> Result<OnRuntime<RecordEngine<PostgresStore>>> {
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
) -> Result<OnRuntime<RecordEngine<PostgresStore>>> {
    let runtime = host.clone();
    let opening = async move {
        Ok(RecordEngine::new(PostgresStore::open(settings).await?, runtime, CALLS_MAX))
    };
    OnRuntime::make(host, opening).await
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeOfPostgres;
