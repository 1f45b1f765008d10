//! The stage of these tests: servers, clients, and the sessions of strangers.

use std::fmt::Debug;
use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tenure_conformance::fault::stage;
pub(super) use tenure_conformance::fault::stage::{again, at_last, soon, until, until_line};
use tenure_core::layers::AnyEngine;
use tenure_core::{BackgroundRuntime, ErrorKind, Key, Locks, Result, Runtime};
use tenure_core::{Share, Ticket};
use tenure_servers::postgres::{POSTGRES, Server};
use tenure_servers::{Tool, have};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls};

/// A ttl without a heartbeat in the time of a test.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Runs a test that needs PostgreSQL, if there is one here.
pub(super) fn play(story: impl AsyncFnOnce()) {
    play_with(&[], story);
}

/// The same for a test that needs these tools as well.
pub(super) fn play_with(tools: &[Tool], story: impl AsyncFnOnce()) {
    if have(&[&[POSTGRES], tools].concat()) {
        stage::play(story());
    }
}

/// Connects to the locks at this URL.
pub(super) async fn connect(url: impl AsRef<str>) -> Locks {
    at_last("the server can be reached", async || tenure_postgres::connect(url.as_ref()).await)
        .await
}

/// Opens the engine itself, which repeats no verb.
pub(super) async fn engine(url: &str) -> AnyEngine {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    AnyEngine::new(tenure_postgres::engine(url, host).await.expect("the server can be reached"))
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

/// Returns the number of connections of clients in this state. An empty state means any.
pub(super) fn connections(server: &Server, state: &str) -> i64 {
    number(
        server,
        &format!(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = 'tenure' AND '{state}' IN ('', state)"
        ),
    )
}

/// Returns how often the server has refused a row to a statement, because another transaction had
/// it for too long.
pub(super) fn row_refusals(server: &Server) -> i64 {
    let log = fs::read_to_string(server.folder().join("log")).unwrap_or_default();
    log.matches("due to lock timeout").count().try_into().unwrap()
}

/// A session of a stranger to Tenure.
pub(super) struct Stranger {
    client: Client,
    driver: JoinHandle<()>,
}

impl Stranger {
    pub(super) async fn of(server: &Server) -> Self {
        Self::on(TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).await.unwrap()).await
    }

    /// The same for a server that refuses connections over TCP.
    pub(super) async fn by_socket(server: &Server) -> Self {
        let socket = server.folder().join(format!(".s.PGSQL.{}", server.port()));
        Self::on(UnixStream::connect(socket).await.unwrap()).await
    }

    async fn on<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: S) -> Self {
        let mut config = Config::new();
        config.user("postgres").dbname("postgres");
        let (client, connection) = config.connect_raw(stream, NoTls).await.unwrap();
        let driver = tokio::spawn(async move {
            // The server may be killed.
            let _ = connection.await;
        });
        Self { client, driver }
    }

    pub(super) async fn sql(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    /// Returns the number of rows of a query.
    pub(super) async fn count(&self, query: &str) -> usize {
        self.client.query(query, &[]).await.unwrap().len()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.driver.abort();
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
