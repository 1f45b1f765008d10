//! A connection that fails when its client accepts too little of a response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Maximum time in which a client that is behind accepts the next [`PART`] of a response, or the
/// rest of it.
pub(crate) const WRITE_MAX: Duration = Duration::from_secs(30);
const PART: usize = 1 << 20;

/// A stream with a time limit for writes to a client that is behind.
pub(crate) struct PatientStream<S> {
    stream: S,
    /// Runs while the client is behind.
    limit: Pin<Box<Sleep>>,
    is_behind: bool,
    /// Count of bytes that the client has accepted since the limit began.
    accepted: usize,
}

impl<S: AsyncWrite + Unpin> PatientStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, limit: Box::pin(sleep(WRITE_MAX)), is_behind: false, accepted: 0 }
    }

    fn bounded(
        &mut self,
        context: &mut Context<'_>,
        offered: usize,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) {
            self.accepted += written.as_ref().map_or(0, |count| *count);
            if written.as_ref().is_ok_and(|count| *count == offered) {
                self.is_behind = false;
            } else if self.accepted >= PART {
                self.begin_limit();
            }
            return Poll::Ready(written);
        }
        if !self.is_behind {
            self.is_behind = true;
            self.begin_limit();
        }
        ready!(self.limit.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn begin_limit(&mut self) {
        self.accepted = 0;
        self.limit.as_mut().reset(Instant::now() + WRITE_MAX);
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
        self.bounded(context, bytes.len(), |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let offered = slices.iter().map(|slice| slice.len()).sum();
        self.bounded(context, offered, |stream, context| {
            stream.poll_write_vectored(context, slices)
        })
    }

    /// Otherwise hyper copies each response into a buffer that it keeps with the connection.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
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

    /// Writes this many bytes to a client that reads `each` twice in [`WRITE_MAX`].
    async fn write_to_reader(bytes: usize, each: usize) -> io::Result<()> {
        let (mut client, server) = duplex(each);
        let mut server = PatientStream::new(server);
        let reader = tokio::spawn(async move {
            let mut read = vec![0; each];
            loop {
                sleep(WRITE_MAX / 2).await;
                if client.read_exact(&mut read).await.is_err() {
                    return;
                }
            }
        });
        let written = server.write_all(&vec![0; bytes]).await;
        reader.abort();
        written
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_everything() {
        write_to_reader(8 * PART, PART).await.unwrap();
        // The rest is shorter than a part.
        write_to_reader(PART, PART / 2).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_a_little_now_and_then_fails_the_write() {
        let refused = write_to_reader(PART, 16).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::TimedOut);
    }
}
