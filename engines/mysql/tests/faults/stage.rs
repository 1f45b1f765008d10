//! The stage of these tests: servers, clients, and the sessions of strangers.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, OptsBuilder};
use tenure_conformance::fault::stage;
pub(super) use tenure_conformance::fault::stage::{again, at_last, soon, until, until_line};
use tenure_core::layers::AnyEngine;
use tenure_core::{BackgroundRuntime, ErrorKind, Key, Locks, Result, Runtime};
use tenure_core::{Share, Ticket};
use tenure_servers::have;
use tenure_servers::mariadb::{MARIADB, Server};

/// A ttl without a heartbeat in the time of a test.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Runs a test that needs MariaDB, if there is one here.
pub(super) fn play(story: impl AsyncFnOnce()) {
    if have(&[MARIADB]) {
        stage::play(story());
    }
}

/// Connects to the locks at this URL.
pub(super) async fn connect(url: impl AsRef<str>) -> Locks {
    at_last("the server can be reached", async || tenure_mysql::connect(url.as_ref()).await).await
}

/// Opens the engine itself, which repeats no verb.
pub(super) async fn engine(url: &str) -> AnyEngine {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    AnyEngine::new(tenure_mysql::engine(url, host).await.expect("the server can be reached"))
}

pub(super) fn key(key: &str) -> Key {
    Key::new(key).unwrap()
}

/// Returns a ticket for the whole of this key.
pub(super) fn ticket(name: &str, ttl: Duration) -> Ticket {
    Ticket { ttl, ..Ticket::new(key(name), Share::WHOLE) }
}

/// Returns the only number that a query returns.
pub(super) fn number(server: &Server, query: &str) -> i64 {
    server.sql(query).unwrap().parse().unwrap()
}

/// Returns the number of connections of clients.
pub(super) fn connections(server: &Server) -> i64 {
    number(server, "SELECT count(*) FROM information_schema.PROCESSLIST WHERE DB = 'locks'")
}

/// Returns the answer to a query of `INNODB_TRX`. `InnoDB` keeps the rows of that table until 100
/// ms have passed without a reader, so a quicker poll reads the same rows for ever.
pub(super) async fn of_transactions(server: &Server, query: &str) -> String {
    tokio::time::sleep(Duration::from_millis(150)).await;
    server.sql(query).unwrap()
}

/// Returns the number of open transactions, without the sleeps of clients that listen.
pub(super) async fn transactions(server: &Server) -> i64 {
    let query = "SELECT count(*) FROM information_schema.INNODB_TRX \
         WHERE trx_autocommit_non_locking = 0";
    of_transactions(server, query).await.parse().unwrap()
}

/// Returns how often a transaction has had to wait for a row since the server started.
pub(super) fn row_waits(server: &Server) -> i64 {
    const WAITS: &str = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
         WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_WAITS'";
    number(server, WAITS)
}

/// A session of a stranger to Tenure.
pub(super) struct Stranger(Conn);

impl Stranger {
    pub(super) async fn of(server: &Server) -> Self {
        let options = OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(server.port())
            .user(Some("root"))
            .db_name(Some("locks"))
            .prefer_socket(false);
        Self(Conn::new(options).await.unwrap())
    }

    pub(super) async fn sql(&mut self, statements: &str) {
        self.0.query_drop(statements).await.unwrap();
    }
}

/// Asserts an error of this kind whose message is one line with all of these parts.
#[track_caller]
pub(super) fn assert_refused<T: Debug>(answer: Result<T>, kind: ErrorKind, parts: &[&str]) {
    let error = answer.unwrap_err();
    let sentence = error.to_string();
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(!sentence.contains('\n') && !sentence.is_empty(), "{sentence}");
    for part in parts {
        assert!(sentence.contains(part), "`{part}` is not in: {sentence}");
    }
}
