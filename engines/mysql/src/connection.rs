//! One connection to the server that takes writes: how it is opened, and the task that owns it.

use std::thread;
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{ClientIdentity, Conn, OptsBuilder, Row, SslOpts};
use rustls::crypto::{CryptoProvider, ring};
use tenure_core::Result;
use tenure_kit::secret::Secret;
use tenure_kit::server_errors::of_hosts;
use tenure_kit::tls::Tls;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::facts::MysqlFacts;
use crate::settings::{HostOrSocket, Settings};
use crate::sql::MODE;
use crate::trouble::{self, ErrorClass};

/// Maximum statements that wait for the connection.
const WAITING_MAX: usize = 64;
/// The settings of a session for the statements that are not procedures.
const SESSION: &str = "SET SESSION autocommit = 1, time_zone = '+00:00', wait_timeout = 28800, completion_type = 0, \
     sql_select_limit = 18446744073709551615, sql_big_selects = 1 \
     /*M! , max_statement_time = 0 */ /*!80000 , max_execution_time = 0 */";
/// The character set of names, texts and answers.
const NAMES: &str = "SET NAMES utf8mb4";
/// Longest statement and answer, which the server limits by itself. With it the driver asks nothing
/// before the settings of the session are made.
const PACKET_BYTES_MAX: usize = 1 << 30;
/// Idle time after which the server ends a session.
const IDLE_MAX_S: usize = 28_800;
/// The isolation of a session.
const ISOLATION: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE";

/// An open connection to a server that takes writes.
pub(crate) struct MysqlConnection {
    pub(crate) facts: MysqlFacts,
    statements: mpsc::Sender<Statement>,
}

/// A statement for the task that owns the connection.
struct Statement {
    text: String,
    answer: oneshot::Sender<Result<Vec<Row>, StatementError>>,
}

/// Why a statement returned no rows.
#[derive(Debug)]
pub(crate) enum StatementError {
    Refused(mysql_async::Error),
    /// The server did not answer in time.
    Silent,
    /// The connection has ended, and the statement may have been executed.
    Ended,
}

impl MysqlConnection {
    /// Executes a statement after those before it. Dropping the future does not end a statement
    /// that was sent: the task reads its answer.
    pub(crate) async fn query(
        &self,
        text: String,
        until: Instant,
    ) -> Result<Vec<Row>, StatementError> {
        let (answer, answered) = oneshot::channel();
        let sent = timeout_at(until, self.statements.send(Statement { text, answer })).await;
        sent.map_err(|_| StatementError::Silent)?.map_err(|_| StatementError::Ended)?;
        answered.await.map_err(|_| StatementError::Ended)?
    }
}

/// Opens a connection to the server that takes writes, and its task. `ended` is called once the
/// connection has ended.
///
/// # Errors
///
/// As [`connect_primary`].
pub(crate) async fn open_primary(
    settings: &Settings,
    ended: impl FnOnce() + Send + 'static,
) -> Result<MysqlConnection> {
    let (connection, facts) = connect_primary(settings).await?;
    let (statements, waiting) = mpsc::channel(WAITING_MAX);
    let owner = ConnectionTask { connection, limit: settings.timeout, waiting };
    tokio::spawn(async move {
        owner.run().await;
        ended();
    });
    Ok(MysqlConnection { facts, statements })
}

/// Connects to the first of the hosts that takes writes.
///
/// # Errors
///
/// The errors of all hosts, as [`of_hosts`] joins them.
pub(crate) async fn connect_primary(settings: &Settings) -> Result<(Conn, MysqlFacts)> {
    let until = Instant::now() + settings.connect_timeout;
    // A host that is silent leaves time for the others.
    let share = settings.connect_timeout / u32::try_from(settings.hosts.len()).unwrap_or(1);
    let mut errors = Vec::new();
    for host in &settings.hosts {
        let within = until.min(Instant::now() + share);
        match open(settings, host, within).await {
            Ok(opened) => return Ok(opened),
            Err(error) => errors.push(error),
        }
    }
    Err(of_hosts(trouble::no_answer(settings), errors))
}

async fn open(
    settings: &Settings,
    host: &HostOrSocket,
    until: Instant,
) -> Result<(Conn, MysqlFacts)> {
    let options = match host {
        HostOrSocket::Tcp(address) => {
            OptsBuilder::default().ip_or_hostname(address.name.clone()).tcp_port(address.port)
        }
        HostOrSocket::Socket(path) => OptsBuilder::default().socket(Some(path)),
    };
    let mut options = options
        .user(settings.login.user.clone())
        .pass(settings.password().map(Secret::reveal))
        .db_name(Some(settings.database.clone()))
        .setup(vec![SESSION, ISOLATION, MODE, NAMES])
        .max_allowed_packet(Some(PACKET_BYTES_MAX))
        .wait_timeout(Some(IDLE_MAX_S))
        .client_found_rows(true)
        .prefer_socket(false);
    if let Some(tls) = &settings.tls {
        options = options.ssl_opts(ssl(tls)?);
    }
    let mut opening = Box::pin(Conn::new(options));
    let Ok(connected) = timeout_at(until, &mut opening).await else {
        drop_elsewhere(opening);
        return Err(trouble::silent_host(host));
    };
    let mut connection = connected.map_err(|error| trouble::at_the_door(settings, host, &error))?;
    match timeout_at(until, MysqlFacts::ask(settings, host, &mut connection)).await {
        Ok(Ok(facts)) => Ok((connection, facts)),
        Ok(Err(error)) => {
            // The error is the one to report.
            let _ = timeout_at(until, connection.disconnect()).await;
            Err(error)
        }
        Err(_) => {
            drop_elsewhere(connection);
            Err(trouble::silent_host(host))
        }
    }
}

/// Returns the driver's settings of TLS.
fn ssl(tls: &Tls) -> Result<SslOpts> {
    // The driver uses the provider of the process, and panics if there is none and the program has
    // been built with two.
    if CryptoProvider::get_default().is_none() {
        // Fails if another thread has just set one.
        let _ = ring::default_provider().install_default();
    }
    let mut options = SslOpts::default();
    if let Some(pem) = tls.read_ca()? {
        options = options.with_root_certs(vec![pem.into()]).with_disable_built_in_roots(true);
    }
    if let Some(identity) = tls.read_identity()? {
        let identity = ClientIdentity::new(identity.cert.into(), identity.key.into());
        options = options.with_client_identity(Some(identity));
    }
    Ok(options)
}

/// Drops a connection in the middle of an answer. On a runtime, the driver would wait for the rest
/// of the answer and keep the connection open meanwhile, for ever with a silent server.
pub(crate) fn drop_elsewhere(connection: impl Send + 'static) {
    let dropping = thread::Builder::new().spawn(move || drop(connection));
    if let Err(error) = dropping {
        tracing::debug!(%error, "a silent connection stays open until its server answers");
    }
}

/// The owner of a connection, which executes one statement after the other. No caller can leave an
/// answer half read, or a transaction open.
struct ConnectionTask {
    connection: Conn,
    limit: Duration,
    waiting: mpsc::Receiver<Statement>,
}

impl ConnectionTask {
    /// Runs until the client is dropped or the connection is of no more use.
    async fn run(mut self) {
        while let Some(Statement { text, answer }) = self.waiting.recv().await {
            // The caller has gone before its statement was sent.
            if answer.is_closed() {
                continue;
            }
            let executed = timeout(self.limit, self.connection.query::<Row, _>(text)).await;
            // The callers may have gone. They would only report the answer.
            match executed {
                Ok(Ok(rows)) => drop(answer.send(Ok(rows))),
                Ok(Err(error)) => {
                    let is_over = trouble::outcome(&error) == ErrorClass::Ended;
                    drop(answer.send(Err(StatementError::Refused(error))));
                    if is_over {
                        break;
                    }
                }
                Err(_) => {
                    drop(answer.send(Err(StatementError::Silent)));
                    drop_elsewhere(self.connection);
                    return;
                }
            }
        }
        // Fails if the connection has ended already.
        let _ = timeout(self.limit, self.connection.disconnect()).await;
    }
}
