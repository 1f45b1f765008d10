//! A connection that fails when its client reads nothing for [`WRITE_MAX`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Maximum time for which a client may accept no byte of a response.
pub(crate) const WRITE_MAX: Duration = Duration::from_secs(30);

/// A stream with a time limit for writes that make no progress.
pub(crate) struct PatientStream<S> {
    stream: S,
    /// Runs while a write is pending.
    limit: Pin<Box<Sleep>>,
    is_pending: bool,
}

impl<S: AsyncWrite + Unpin> PatientStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, limit: Box::pin(sleep(WRITE_MAX)), is_pending: false }
    }

    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = write(Pin::new(&mut self.stream), context) {
            self.is_pending = false;
            return Poll::Ready(done);
        }
        if !self.is_pending {
            self.is_pending = true;
            self.limit.as_mut().reset(Instant::now() + WRITE_MAX);
        }
        ready!(self.limit.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PatientStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PatientStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.bounded(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bounded(context, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.bounded(context, AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_nothing_fails_the_write() {
        let (client, server) = duplex(16);
        let mut server = PatientStream::new(server);
        let refused = server.write_all(&[0; 17]).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_everything() {
        let (mut client, server) = duplex(16);
        let mut server = PatientStream::new(server);
        let written = tokio::spawn(async move { server.write_all(&[0; 64]).await });
        for _ in 0..4 {
            sleep(WRITE_MAX / 2).await;
            client.read_exact(&mut [0; 16]).await.unwrap();
        }
        written.await.unwrap().unwrap();
    }
}
