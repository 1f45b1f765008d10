//! Standard input, whose end is the end of the session.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::session::Session;

/// A reader that stops the session at its end. rmcp itself would first wait for the calls that are
/// running, which may wait for a lock.
pub(super) struct Input<R> {
    reader: R,
    session: Arc<Session>,
}

impl<R> Input<R> {
    pub(super) fn new(reader: R, session: Arc<Session>) -> Self {
        Self { reader, session }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.reader).poll_read(context, buffer);
        let is_over = match &read {
            Poll::Ready(Ok(())) => buffer.remaining() > 0 && buffer.filled().len() == before,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_over {
            self.session.stop();
        }
        read
    }
}
