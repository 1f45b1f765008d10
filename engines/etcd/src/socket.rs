//! A socket that is open already, for one channel. The channel would make another one by itself whenever it finds its own
//! closed, and nobody would count those.

use std::future::{Ready, ready};
use std::io::{Error, ErrorKind, Result};
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tenure_kit::url::Address;
use tokio::net::TcpStream;
use tower_service::Service;

/// One socket. Whoever asks for a second one is refused.
pub(crate) struct Socket(Option<TcpStream>);

impl Socket {
    /// Connects to a member.
    pub(crate) async fn open(member: &Address) -> Result<Self> {
        let stream = TcpStream::connect((member.name.as_str(), member.port)).await?;
        // A request is sent at once, however short it is.
        stream.set_nodelay(true)?;
        Ok(Self(Some(stream)))
    }
}

/// What is said of a connection that is gone: it is not opened anew in here.
pub(crate) const ENDED: &str = "the connection has ended";

impl Service<Uri> for Socket {
    type Response = TokioIo<TcpStream>;
    type Error = Error;
    type Future = Ready<Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let ended = || Error::new(ErrorKind::NotConnected, ENDED);
        ready(self.0.take().map(TokioIo::new).ok_or_else(ended))
    }
}
