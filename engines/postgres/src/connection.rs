//! One connection to the primary: how it is opened, its driver, and how it is given up.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tenure_core::{Error, Result};
use tenure_kit::secret::Secret;
use tenure_kit::server_errors::of_hosts;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Notification};

use crate::CALLS_MAX;
use crate::facts::PrimaryFacts;
use crate::settings::{Host, Settings};
use crate::socket::{Socket, Stream};
use crate::trouble;

/// Maximum notifications that wait for their reader.
const NOTIFICATIONS_MAX: usize = 1024;
/// Time limit of a request to cancel a statement. It is long, because `PgBouncer` up to 1.24 may
/// crash if such a client closes its connection before it is answered.
const CANCEL_WITHIN: Duration = Duration::from_secs(30);
/// Pause between two requests to cancel the statements of one connection.
const CANCEL_PAUSE: Duration = Duration::from_millis(20);
/// The routine of the server that waits for the synchronous standby.
const STANDBY_WAIT: &str = "SyncRepWaitForLSN";

/// An open connection to a primary.
pub(crate) struct OpenConnection {
    pub(crate) client: Client,
    pub(crate) facts: PrimaryFacts,
    is_heard: AtomicBool,
    /// Statements that are sent and not answered, also those without a caller.
    unanswered: AtomicUsize,
    host: Host,
    peer: Option<SocketAddr>,
    driver: Driver,
}

/// The task that reads and writes a connection. Dropping this ends it: with a server that does not
/// read, it would never end.
struct Driver {
    task: JoinHandle<()>,
    /// Notified to reset the connection.
    reset: Arc<Notify>,
    /// The sender is dropped when the connection has ended.
    is_over: watch::Receiver<()>,
}

impl Driver {
    async fn over(&self) {
        // The sender is dropped, never used.
        let _ = self.is_over.clone().changed().await;
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl OpenConnection {
    /// Notes that a statement of a verb is sent.
    pub(crate) fn sent(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that the server has answered a statement. An error is an answer.
    pub(crate) fn answered(&self) {
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        self.is_heard.store(true, Ordering::Relaxed);
    }

    /// Whether the server has answered a statement of a verb.
    pub(crate) fn is_heard(&self) -> bool {
        self.is_heard.load(Ordering::Relaxed)
    }

    /// Ends a connection with statements that the server does not answer. A statement that waits
    /// for a lock or a standby would outlast its connection, and occupy a backend.
    pub(crate) async fn end_silent(&self, settings: &Settings) {
        if self.facts.is_pooled {
            self.cancel_all(settings).await;
        }
        self.driver.reset.notify_one();
        self.driver.over().await;
        // The error of the statement cannot be sent, which ends the backend with all statements
        // behind it.
        self.cancel(settings).await;
    }

    /// Cancels all statements, one after the other. The end of a connection to a pooler does not
    /// reach the backend while that executes a statement.
    async fn cancel_all(&self, settings: &Settings) {
        for cancelled in 1..=CALLS_MAX {
            let has_request = self.cancel(settings).await;
            if !has_request || cancelled >= self.unanswered.load(Ordering::Relaxed) {
                return;
            }
            sleep(CANCEL_PAUSE).await;
        }
    }

    /// Cancels the statement that the server executes for this connection. Returns whether the
    /// server has the request.
    async fn cancel(&self, settings: &Settings) -> bool {
        let cancel = async {
            let request = cancel_request(&self.client).await?;
            let mut socket = Socket::open(settings, &self.host, self.peer).await?;
            let answered = async {
                socket.stream.write_all(&request).await?;
                socket.stream.flush().await?;
                // The server closes the connection after it has signalled the backend.
                socket.stream.read_to_end(&mut Vec::new()).await
            };
            answered.await.map_err(|error| trouble::unreached(&self.host, &error))
        };
        let late = || trouble::no_answer(settings);
        let cancelled = timeout(CANCEL_WITHIN, cancel).await.unwrap_or_else(|_| Err(late()));
        if let Err(error) = &cancelled {
            tracing::debug!(%error, "a statement is not cancelled");
        }
        cancelled.is_ok()
    }
}

/// Opens a connection to the primary among the hosts. `ended` is called once the connection has
/// ended.
///
/// # Errors
///
/// The errors of all hosts, as [`of_hosts`] joins them.
pub(crate) async fn open_primary(
    settings: &Settings,
    ended: impl FnOnce() + Send + 'static,
) -> Result<(OpenConnection, mpsc::Receiver<Notification>)> {
    let until = Instant::now() + settings.connect_timeout;
    // A host that is silent leaves time for the others.
    let share = settings.connect_timeout / u32::try_from(settings.hosts.len()).unwrap_or(1);
    let mut errors = Vec::new();
    for host in &settings.hosts {
        let within = until.min(Instant::now() + share);
        match timeout_at(within, open(settings, host)).await {
            Ok(Ok((connection, notifications))) => {
                // Only now: a standby that was asked is not the connection that is in use.
                let mut is_over = connection.driver.is_over.clone();
                tokio::spawn(async move {
                    // The sender is dropped, never used.
                    let _ = is_over.changed().await;
                    ended();
                });
                return Ok((connection, notifications));
            }
            Ok(Err(error)) => errors.push(error),
            Err(_) => errors.push(trouble::silent_host(host)),
        }
    }
    Err(of_hosts(trouble::no_answer(settings), errors))
}

/// Connects, logs in, and starts the driver.
async fn open(
    settings: &Settings,
    host: &Host,
) -> Result<(OpenConnection, mpsc::Receiver<Notification>)> {
    let Socket { stream, peer, resetter } = Socket::open(settings, host, None).await?;
    let connected = config(settings).connect_raw(stream, NoTls).await;
    let (client, connection) =
        connected.map_err(|error| trouble::at_the_door(settings, host, &error))?;
    let (sender, notifications) = mpsc::channel(NOTIFICATIONS_MAX);
    let (reset, (end, is_over)) = (Arc::new(Notify::new()), watch::channel(()));
    let must_reset = reset.clone();
    let task = tokio::spawn(async move {
        let is_closed_by_server = tokio::select! {
            is_closed = drive(connection, sender) => is_closed,
            () = must_reset.notified() => false,
        };
        if !is_closed_by_server && let Err(error) = resetter.reset() {
            tracing::debug!(%error, "a connection is not reset");
        }
        drop(end);
    });
    let driver = Driver { task, reset, is_over };
    let facts = PrimaryFacts::ask(settings, host, &client).await?;
    let connection = OpenConnection {
        client,
        facts,
        is_heard: AtomicBool::new(false),
        unanswered: AtomicUsize::new(0),
        host: host.clone(),
        peer,
        driver,
    };
    Ok((connection, notifications))
}

fn config(settings: &Settings) -> Config {
    let mut config = Config::new();
    config.application_name(&settings.application_name);
    // The stream is encrypted already, or is not to be.
    config.ssl_mode(SslMode::Disable);
    // Without one, the driver takes the user of the operating system.
    if let Some(user) = &settings.login.user {
        config.user(user);
    }
    if let Some(password) = settings.password().map(Secret::reveal) {
        config.password(password);
    }
    if let Some(database) = &settings.database {
        config.dbname(database);
    }
    config
}

/// Reads and writes a connection until it ends. Returns whether the server has closed it, or
/// `false` if it is of no more use.
async fn drive(
    mut connection: Connection<Box<dyn Stream>, NoTlsStream>,
    notifications: mpsc::Sender<Notification>,
) -> bool {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                // Without a reader, the connection does not listen.
                if let Err(mpsc::error::TrySendError::Full(_)) =
                    notifications.try_send(notification)
                {
                    // The reader sees the end after the last one, and listens again.
                    tracing::debug!("too many notifications wait: their connection ends");
                    return false;
                }
            }
            // The wait for the standby was cancelled, and the commit that follows says nothing
            // about it. Without the connection, the answer is unknown.
            Some(Ok(AsyncMessage::Notice(notice))) if notice.routine() == Some(STANDBY_WAIT) => {
                tracing::warn!("a wait for the synchronous standby was cancelled");
                return false;
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(%error, "a connection has ended");
                return true;
            }
            None => return true,
        }
    }
}

/// The pid that the server has given to this connection, as the connection was opened. Behind a
/// pooler it is the pooler's.
pub(crate) async fn greeted_pid(client: &Client) -> Result<i32> {
    let [.., a, b, c, d, _, _, _, _] = cancel_request(client).await?;
    Ok(i32::from_be_bytes([a, b, c, d]))
}

/// The request to cancel the statement of a connection, with the pid and the key of its backend.
/// The driver would close the socket after it.
async fn cancel_request(client: &Client) -> Result<[u8; 16]> {
    let (mut read, write) = tokio::io::duplex(64);
    let sent = client.cancel_token().cancel_query_raw(write, NoTls).await;
    sent.map_err(|_| Error::rejected("the driver does not tell the pid of its connection"))?;
    let mut request = [0; 16];
    let whole = read.read_exact(&mut request).await;
    whole.map_err(|_| Error::rejected("the driver does not tell the pid of its connection"))?;
    Ok(request)
}
