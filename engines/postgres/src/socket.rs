//! A socket to a host: by TCP with or without TLS, or by a Unix socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::{io, net};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tenure_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::settings::{Host, Settings};
use crate::trouble;

/// The message that asks a server for TLS.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// An open socket.
pub(crate) struct Socket {
    pub(crate) stream: Box<dyn Stream>,
    /// The address of the server, if the socket is TCP.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) resetter: Resetter,
}

/// The bytes of a socket.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A second handle of a TCP socket, which closes with the last of the two.
pub(crate) struct Resetter(Option<net::TcpStream>);

impl Resetter {
    /// Lets the socket close with a reset. The server's next write fails, and ends its backend.
    pub(crate) fn reset(self) -> io::Result<()> {
        self.0.map_or(Ok(()), |twin| TcpStream::from_std(twin)?.set_zero_linger())
    }
}

impl Socket {
    /// Connects to a host. `peer`: the address of its name, if it is known.
    pub(crate) async fn open(
        settings: &Settings,
        host: &Host,
        peer: Option<SocketAddr>,
    ) -> Result<Self> {
        let unreached = |error: io::Error| trouble::unreached(host, &error);
        match host {
            Host::Tcp(address) => {
                let stream = match peer {
                    Some(peer) => TcpStream::connect(peer).await,
                    None => TcpStream::connect((address.name.as_str(), address.port)).await,
                };
                let (stream, peer, twin) = stream.and_then(prepared).map_err(unreached)?;
                let stream: Box<dyn Stream> = match &settings.tls {
                    None => Box::new(stream),
                    Some(tls) => {
                        let tls = tls.client_config(&[])?;
                        Box::new(encrypt(host, stream, &address.name, tls).await?)
                    }
                };
                Ok(Self { stream, peer: Some(peer), resetter: Resetter(Some(twin)) })
            }
            #[cfg(unix)]
            Host::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreached)?;
                Ok(Self { stream: Box::new(stream), peer: None, resetter: Resetter(None) })
            }
            #[cfg(not(unix))]
            Host::Socket(_) => Err(Error::unsupported("this system has no Unix sockets")),
        }
    }
}

fn prepared(stream: TcpStream) -> io::Result<(TcpStream, SocketAddr, net::TcpStream)> {
    // Without it, small requests wait for the answer of the one before.
    stream.set_nodelay(true)?;
    let (peer, stream) = (stream.peer_addr()?, stream.into_std()?);
    let twin = stream.try_clone()?;
    Ok((TcpStream::from_std(stream)?, peer, twin))
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
