//! One connection to a member: HTTP/2, with TLS or without.
//!
//! It does not reconnect: the kit's link counts connections, and opens the next one.

#![allow(unreachable_pub, reason = "the feature `wire` makes it public")]

use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::{Arc, Weak};
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
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

/// Interval of pings. Members disconnect clients that ping more often than every five seconds, or
/// without a request in flight.
const PING_EVERY: Duration = Duration::from_secs(10);
/// Flow-control windows of one stream, and of all streams of a connection.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// Maximum bytes of headers. A member's status of a request is short.
const HEADERS_BYTES_MAX: u32 = 64 << 10;
/// The name of HTTP/2 in TLS.
pub(crate) const HTTP2: &[u8] = b"h2";

/// Message for a server that speaks TLS, but not HTTP/2 in it.
pub(crate) const NO_HTTP2: &str = "it speaks TLS, and not HTTP/2";

/// An open connection. It ends with the last of its copies.
#[derive(Clone)]
pub struct MemberChannel {
    pub(crate) send: SendRequest<Bytes>,
    pub(crate) scheme: Scheme,
    pub(crate) authority: Authority,
    /// Upgraded by each open request and stream.
    open: Weak<()>,
    /// The member was silent: the connection ends, with all requests on it.
    is_silent: watch::Sender<bool>,
}

impl MemberChannel {
    /// Opens a connection over this socket. Ends it if a ping has no answer for `patience`.
    ///
    /// # Errors
    ///
    /// The connection cannot be opened.
    pub async fn open(
        stream: TcpStream,
        member: &Address,
        tls: Option<Arc<rustls::ClientConfig>>,
        patience: Duration,
    ) -> io::Result<Self> {
        let authority = Authority::try_from(member.to_string())
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let Some(tls) = tls else {
            return Self::over(stream, Scheme::HTTP, authority, patience).await;
        };
        let name = ServerName::try_from(member.name.clone())
            .map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
        let stream = TlsConnector::from(tls).connect(name, stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return Err(io::Error::other(NO_HTTP2));
        }
        Self::over(stream, Scheme::HTTPS, authority, patience).await
    }

    async fn over<T>(
        stream: T,
        scheme: Scheme,
        authority: Authority,
        patience: Duration,
    ) -> io::Result<Self>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (counted, is_silent) = (Arc::new(()), watch::Sender::new(false));
        let open = Arc::downgrade(&counted);
        let send = speak(stream, patience, counted, is_silent.clone()).await?;
        Ok(Self { send, scheme, authority, open, is_silent })
    }

    /// Ends the connection to a member that does not answer. Its callers get an error.
    pub(crate) fn end(&self) {
        self.is_silent.send_replace(true);
    }

    /// Returns whether it ended because the member did not answer.
    pub(crate) fn was_silent(&self) -> bool {
        *self.is_silent.borrow()
    }

    /// Counts a request or a stream that is about to be opened, until the result is dropped.
    pub(crate) fn begin(&self) -> Option<Arc<()>> {
        self.open.upgrade()
    }
}

/// Connects to a member's port. Any program may listen there.
///
/// # Errors
///
/// The connection cannot be opened.
pub async fn reach(member: &Address) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((member.name.as_str(), member.port)).await?;
    // A request is sent at once, at any length.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn speak<T>(
    stream: T,
    patience: Duration,
    open: Arc<()>,
    is_silent: watch::Sender<bool>,
) -> io::Result<SendRequest<Bytes>>
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
    tokio::spawn(async move {
        let mut silent = is_silent.subscribe();
        let driven = pin!(drive(connection, patience, &open, &is_silent));
        select(driven, pin!(silent.wait_for(|is_silent| *is_silent))).await;
    });
    Ok(send)
}

/// Drives the connection until it ends, and ends it if a ping is not answered.
async fn drive<T>(
    mut connection: Connection<T, Bytes>,
    patience: Duration,
    open: &Arc<()>,
    is_silent: &watch::Sender<bool>,
) where
    T: AsyncRead + AsyncWrite + Unpin,
{
    match connection.ping_pong() {
        Some(pings) => {
            let unanswered = async {
                unanswered(pings, patience, open).await;
                is_silent.send_replace(true);
            };
            select(pin!(connection), pin!(unanswered)).await;
        }
        // Callers get the reason why the connection ended.
        None => drop(connection.await),
    }
}

/// Waits until a ping is not answered. It pings only while callers wait: without them, the next
/// request finds out that the member is gone.
async fn unanswered(mut pings: PingPong, patience: Duration, open: &Arc<()>) {
    loop {
        sleep(PING_EVERY).await;
        if Arc::strong_count(open) == 1 {
            continue;
        }
        if !matches!(timeout(patience, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, DuplexStream, duplex};

    use super::*;
    use crate::calls::{AuthorizedChannel, stream};
    use crate::wire::{WatchRequest, WatchResponse};

    const PREFACE_BYTES: usize = 24;
    const HEAD_BYTES: usize = 9;
    const PING: u8 = 6;

    /// Returns the count of pings so far.
    async fn pings(server: &mut DuplexStream, seen: &mut Vec<u8>) -> usize {
        while timeout(Duration::from_millis(1), server.read_buf(seen)).await.is_ok() {}
        let (mut rest, mut pings) = (&seen[PREFACE_BYTES..], 0);
        while let Some((head, more)) = rest.split_at_checked(HEAD_BYTES) {
            pings += usize::from(head[3] == PING);
            let length = (usize::from(head[1]) << 8) | usize::from(head[2]);
            rest = &more[length..];
        }
        pings
    }

    #[tokio::test(start_paused = true)]
    async fn a_member_is_pinged_only_while_something_is_asked() {
        let (client, mut server) = duplex(1 << 16);
        let (authority, mut seen) = (Authority::from_static("m:1"), Vec::new());
        let channel =
            MemberChannel::over(client, Scheme::HTTP, authority, PING_EVERY * 9).await.unwrap();
        sleep(PING_EVERY * 6).await;
        assert_eq!(pings(&mut server, &mut seen).await, 0);
        let wire = AuthorizedChannel { channel, token: None };
        let open = stream::<WatchRequest, WatchResponse>(&wire, "/watch").await.unwrap();
        sleep(PING_EVERY * 2).await;
        assert_eq!(pings(&mut server, &mut seen).await, 1, "it is not answered");
        drop(open);
        assert_eq!(wire.channel.open.strong_count(), 1, "the connection alone");
    }
}
