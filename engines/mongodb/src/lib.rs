//! Locks kept by MongoDB 4.4 and later: a replica set, a sharded cluster, or one server.
//!
//! ```no_run
//! # async fn pay() -> tenure_core::Result<()> {
//! let locks = tenure_mongodb::connect("mongodb://localhost/?replicaSet=rs0").await?;
//! let guard = locks.mutex("invoices/42").lock().await?;
//! println!("mine, and newer than all before: {}", guard.token());
//! # Ok(())
//! # }
//! ```
//!
//! The line of a key is one document, and a verb is one `findAndModify` whose pipeline runs on the
//! server's clock. An answer counts when a majority has the write in its journal. A change stream
//! notifies the next holder. The README of this crate describes the setup of a server, and what is
//! not promised. [`Locks::guarantees`] returns what the connected servers promise.
//!
//! # Files
//!
//! Every engine has the same files for the same things:
//!
//! | file | contents |
//! |---|---|
//! | `lib` | how to get locks; nothing else is needed to use the engine |
//! | `description`, `url`, `settings` | the schemes and options of the engine, how its URLs are read, and what they mean |
//! | `connect` | how the driver is set up |
//! | `store`, `engine` | how the engine is opened, and the ten verbs |
//! | `facts` | the results of the check at start-up: guarantees, refusals, warnings |
//! | `trouble`, `server_label` | error messages; the names of the servers, without passwords |
//!
//! An engine adds files for what only its store has. Here these are:
//!
//! | file | contents |
//! |---|---|
//! | `line` | the fields of a line |
//! | `stages`, `verbs`, `counter` | the stages of every step, of each verb, and of a number |
//! | `short` | shorter steps for a lock that only one client uses |
//! | `field_prefix`, `location` | where a line lives: in which document, and where in it |
//! | `extension` | the extension point for lines in other documents |
//! | `projection`, `answer`, `letter` | the answers to verbs, and the letters in a change stream |
//! | `request`, `batch`, `batcher` | batching: verbs for one record go together in one command |
//! | `fresh`, `readable` | the first number of a new record, and which records and lines this version can read |
//! | `opening` | which collections can keep locks |
//! | `command`, `records` | how a command is sent, and the commands about many records |
//! | `feed`, `wants`, `change_stream` | the one change stream of a store, and its consumers |
//! | `watching`, `stream`, `local_tickets` | how a ticket waits, its letters as a consumer of the feed, and which tickets stand where |
//! | `glances` | a read of the records of watched tickets, about once a second, for what no letter reports |
//! | `onlooker`, `followed_line`, `mirror` | onlookers as consumers of the feed, and the events of a line from its changes |
//! | `value` | a text beside a line, which one command compares and replaces |
//! | `record_map` | a bounded map by records, and how many commands change one at a time |

mod answer;
mod batch;
mod batcher;
mod change_stream;
mod command;
mod connect;
mod counter;
mod description;
mod engine;
#[doc(hidden)]
pub mod extension;
mod facts;
mod feed;
mod field_prefix;
mod followed_line;
mod fresh;
mod glances;
mod letter;
mod line;
mod local_tickets;
mod location;
mod mirror;
mod onlooker;
mod opening;
mod projection;
mod readable;
mod record_map;
mod records;
#[cfg(test)]
mod rendered;
mod request;
mod server_label;
mod settings;
mod short;
mod stages;
mod store;
mod stream;
mod trouble;
mod url;
mod value;
mod verbs;
mod wants;
mod watching;

use std::sync::Arc;

use mongodb::Client;
pub use mongodb::options::ClientOptions;
use tenure_core::layers::{OnRuntime, Retries};
use tenure_core::{BackgroundRuntime, Locks, Result, Runtime};
use tokio::runtime::Handle;

pub use description::DESCRIPTION;
pub use settings::Settings;
pub use store::MongoStore;

/// Maximum retries of a verb whose answer was lost, with a backoff that doubles each time.
#[doc(hidden)]
pub const RETRIES: Retries = Retries::times(4);

/// Returns the locks of the servers that this URL names:
/// `mongodb://HOST,HOST/DATABASE?option=value`, or `mongodb+srv://NAME`.
///
/// It takes the options of the driver, and three more: `database` (the URL's, or `tenure`),
/// `collection` (`locks`) and `timeout` (5 s). Compression, a proxy, a password on the client's key
/// and logins by Kerberos or AWS are refused.
///
/// # Errors
///
/// [`Invalid`](tenure_core::ErrorKind::Invalid) or
/// [`Unsupported`](tenure_core::ErrorKind::Unsupported) if the URL or an option is wrong.
/// [`Rejected`](tenure_core::ErrorKind::Rejected) if the servers refuse the user, or the collection
/// cannot keep locks. [`Unavailable`](tenure_core::ErrorKind::Unavailable) if no primary answers in
/// time.
pub async fn connect(url: impl AsRef<str>) -> Result<Locks> {
    let (options, settings) = url::read(url.as_ref()).await?;
    connect_with(options, settings).await
}

/// As [`connect`](fn@connect), with options of the driver that the program has built.
///
/// # Errors
///
/// As [`connect`](fn@connect).
pub async fn connect_with(options: ClientOptions, settings: Settings) -> Result<Locks> {
    hosted(async move { MongoStore::with_options(options, &settings).await }).await
}

/// As [`connect`](fn@connect), over a client of the program's own. The calling runtime drives its
/// connections, and must be the one that the client was made in. No lock is renewed while that
/// runtime is blocked, or while the program's own commands use every connection of the client. The
/// guarantees contain a warning of it.
///
/// # Errors
///
/// As [`connect`](fn@connect).
pub async fn connect_over(client: Client, settings: Settings) -> Result<Locks> {
    let runtime = Handle::current();
    hosted(async move { MongoStore::over(client, runtime, &settings).await }).await
}

async fn hosted(
    opening: impl Future<Output = Result<MongoStore>> + Send + 'static,
) -> Result<Locks> {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    let store = OnRuntime::make(host.clone(), opening).await?;
    Ok(Locks::with_retries(store, host, RETRIES))
}
