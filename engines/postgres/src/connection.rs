//! One connection to the primary: how it is opened, and its driver.

use std::future::poll_fn;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tenure_core::{Error, Result};
use tenure_kit::secret::Secret;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, Notification};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::facts::PrimaryFacts;
use crate::settings::{Host, Settings};
use crate::trouble;

/// Maximum notifications that wait for their reader.
const NOTIFICATIONS_MAX: usize = 1024;
/// The routine of the server that waits for the synchronous standby.
const STANDBY_WAIT: &str = "SyncRepWaitForLSN";
/// The message that asks a server for TLS.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// An open connection to a primary.
pub(crate) struct OpenConnection {
    pub(crate) client: Client,
    pub(crate) facts: PrimaryFacts,
    _driver: Driver,
}

/// A connection that was opened, to a primary or not.
struct Opened {
    client: Client,
    notifications: mpsc::Receiver<Notification>,
    driver: Driver,
}

/// The task that reads and writes a connection. Dropping this ends it: with a server that does not
/// read, it would never end.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Opens a connection to the primary among the hosts. `ended` is called once the connection has
/// ended.
///
/// # Errors
///
/// The errors of all hosts, as [`trouble::of_hosts`] joins them.
pub(crate) async fn open_primary(
    settings: &Settings,
    ended: impl FnOnce() + Send + 'static,
) -> Result<(OpenConnection, mpsc::Receiver<Notification>)> {
    let until = Instant::now() + settings.connect_timeout;
    // A host that is silent leaves time for the others.
    let share = settings.connect_timeout / u32::try_from(settings.hosts.len()).unwrap_or(1);
    let mut ended = Some(ended);
    let mut errors = Vec::new();
    for host in &settings.hosts {
        let within = until.min(Instant::now() + share);
        match timeout_at(within, open(settings, host, &mut ended)).await {
            Ok(Ok(primary)) => return Ok(primary),
            Ok(Err(error)) => errors.push(error),
            Err(_) => errors.push(trouble::silent_host(host)),
        }
    }
    Err(trouble::of_hosts(settings, errors))
}

async fn open<E: FnOnce() + Send + 'static>(
    settings: &Settings,
    host: &Host,
    ended: &mut Option<E>,
) -> Result<(OpenConnection, mpsc::Receiver<Notification>)> {
    let (told, is_over) = oneshot::channel::<()>();
    let Opened { client, notifications, driver } = match host {
        Host::Tcp(address) => {
            let stream = TcpStream::connect((address.name.as_str(), address.port)).await;
            let stream = stream.map_err(|error| trouble::unreached(host, &error))?;
            // Without it, small requests wait for the answer of the one before.
            stream.set_nodelay(true).map_err(|error| trouble::unreached(host, &error))?;
            let tls = settings.tls.as_ref().map(|tls| tls.client_config(&[])).transpose()?;
            match tls {
                None => start(settings, host, stream, told).await?,
                Some(tls) => {
                    let stream = encrypt(host, stream, &address.name, tls).await?;
                    start(settings, host, stream, told).await?
                }
            }
        }
        #[cfg(unix)]
        Host::Socket(path) => {
            let stream = UnixStream::connect(path).await;
            let stream = stream.map_err(|error| trouble::unreached(host, &error))?;
            start(settings, host, stream, told).await?
        }
        #[cfg(not(unix))]
        Host::Socket(_) => return Err(Error::unsupported("this system has no Unix sockets")),
    };
    let facts = PrimaryFacts::ask(settings, host, &client).await?;
    // Only now: a standby that was asked is not the connection that is in use.
    if let Some(ended) = ended.take() {
        tokio::spawn(async move {
            // The sender is dropped, never used.
            let _ = is_over.await;
            ended();
        });
    }
    Ok((OpenConnection { client, facts, _driver: driver }, notifications))
}

/// Asks for TLS as PostgreSQL does it, and checks the server's certificate.
async fn encrypt(
    host: &Host,
    mut stream: TcpStream,
    name: &str,
    config: Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned())
        .map_err(|error| Error::invalid(format!("`{name}` is no name for TLS: {error}")))?;
    let mut answer = [0];
    let asked = async {
        stream.write_all(&TLS_REQUEST).await?;
        stream.read_exact(&mut answer).await
    };
    asked.await.map_err(|error| trouble::unreached(host, &error))?;
    if answer != *b"S" {
        return Err(trouble::without_tls(host));
    }
    let encrypted = TlsConnector::from(config).connect(name, stream).await;
    encrypted.map_err(|error| trouble::untrusted(host, &error))
}

/// Logs in, and starts the task that reads and writes the connection.
async fn start<S>(
    settings: &Settings,
    host: &Host,
    stream: S,
    told: oneshot::Sender<()>,
) -> Result<Opened>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
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
    let connected = config.connect_raw(stream, NoTls).await;
    let (client, mut connection) =
        connected.map_err(|error| trouble::at_the_door(settings, host, &error))?;
    let (sender, notifications) = mpsc::channel(NOTIFICATIONS_MAX);
    let driver = Driver(tokio::spawn(async move {
        let _told = told;
        loop {
            match poll_fn(|context| connection.poll_message(context)).await {
                // A reader that is late misses notifications. They are hints, and it polls.
                Some(Ok(AsyncMessage::Notification(notification))) => {
                    if let Err(mpsc::error::TrySendError::Full(_)) = sender.try_send(notification) {
                        tracing::debug!("a notification is dropped, because too many wait");
                    }
                }
                // The wait for the standby was cancelled, and the commit that follows says nothing
                // about it. Without the connection, the answer is unknown.
                Some(Ok(AsyncMessage::Notice(notice)))
                    if notice.routine() == Some(STANDBY_WAIT) =>
                {
                    tracing::warn!("a wait for the synchronous standby was cancelled");
                    return;
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::debug!(%error, "a connection has ended");
                    return;
                }
                None => return,
            }
        }
    }));
    Ok(Opened { client, notifications, driver })
}

/// The pid that the server has given to this connection, as the connection was opened. Behind a
/// pooler it is the pooler's.
pub(crate) async fn greeted_pid(client: &Client) -> Result<i32> {
    // The driver shows the pid only in a request to cancel, which goes to a buffer here.
    let (mut read, write) = tokio::io::duplex(64);
    let token = client.cancel_token();
    let sent = token.cancel_query_raw(write, NoTls).await;
    sent.map_err(|_| Error::rejected("the driver does not tell the pid of its connection"))?;
    let mut request = [0; 16];
    let whole = read.read_exact(&mut request).await;
    whole.map_err(|_| Error::rejected("the driver does not tell the pid of its connection"))?;
    let [.., a, b, c, d, _, _, _, _] = request;
    Ok(i32::from_be_bytes([a, b, c, d]))
}
