//! One connection to a member: HTTP/2, with TLS or without.
//!
//! It is not opened anew when it has ended: the kit's link counts connections, and opens the next one.

#![allow(unreachable_pub, reason = "the feature `wire` makes it public")]

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::select;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Ping, PingPong};
use http::uri::{Authority, Scheme};
use rustls::pki_types::ServerName;
use tenure_kit::url::Address;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// Members turn clients away that ping them more often than every five seconds.
const PING_EVERY: Duration = Duration::from_secs(10);
/// So much may be on its way to this client that it has not read: over one stream, and over all of a connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// What a member says of the end of a request is short.
const HEADERS_BYTES_MAX: u32 = 64 << 10;
/// What TLS calls HTTP/2.
pub(crate) const HTTP2: &[u8] = b"h2";

/// A connection that is open. It ends with the last of its copies.
#[derive(Clone)]
pub struct Channel {
    pub(crate) send: SendRequest<Bytes>,
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
}

impl Channel {
    /// Connects to a member. A member that answers no ping for `patience` is given up.
    pub async fn open(
        member: &Address,
        tls: Option<Arc<rustls::ClientConfig>>,
        patience: Duration,
    ) -> io::Result<Self> {
        let authority = Authority::try_from(member.to_string())
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let stream = TcpStream::connect((member.name.as_str(), member.port)).await?;
        // A request is sent at once, however short it is.
        stream.set_nodelay(true)?;
        let Some(tls) = tls else {
            let send = speak(stream, patience).await?;
            return Ok(Self { send, scheme: Scheme::HTTP, authority });
        };
        let name = ServerName::try_from(member.name.clone())
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let stream = TlsConnector::from(tls).connect(name, stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return Err(io::Error::other("it speaks TLS, and not HTTP/2"));
        }
        let send = speak(stream, patience).await?;
        Ok(Self { send, scheme: Scheme::HTTPS, authority })
    }
}

async fn speak<T>(stream: T, patience: Duration) -> io::Result<SendRequest<Bytes>>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .max_header_list_size(HEADERS_BYTES_MAX)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let (send, connection) = builder.handshake(stream).await.map_err(io::Error::other)?;
    tokio::spawn(drive(connection, patience));
    Ok(send)
}

/// Ends when the connection does, and ends it when a ping is not answered.
async fn drive<T>(mut connection: Connection<T, Bytes>, patience: Duration)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    match connection.ping_pong() {
        Some(pings) => drop(select(pin!(connection), pin!(unanswered(pings, patience))).await),
        // Whoever waits for an answer is told why the connection ended.
        None => drop(connection.await),
    }
}

async fn unanswered(mut pings: PingPong, patience: Duration) {
    loop {
        sleep(PING_EVERY).await;
        if !matches!(timeout(patience, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}
