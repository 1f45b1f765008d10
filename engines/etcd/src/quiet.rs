//! Pings by which a member measures its round trip to this client, answered once a second instead
//! of with each request.
//!
//! A member sends such a ping after the first bytes of a request, unless an earlier one is not
//! answered yet. If it is answered at once, both sides make one write and one read more with every
//! request. So this module withholds it from HTTP/2 for a second, and no other comes meanwhile. A
//! ping that checks whether this client lives is another one, and is passed on at once.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::Instant;

const FRAME_HEAD_BYTES: usize = 9;
/// A whole frame with the payload that grpc-go, the library of all members, writes into these pings
/// and into no others.
const MEASURING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 2, 4, 16, 16, 9, 14, 7, 7];
/// The type of a frame that continues a head.
const CONTINUATION: u8 = 9;
/// Time after which a withheld ping is passed on with the next data.
const WITHHELD: Duration = Duration::from_secs(1);
/// Maximum bytes of one read.
const CHUNK_BYTES: usize = 8 << 10;

/// A connection on which such pings are rare.
pub(crate) struct Quiet<T> {
    stream: T,
    /// Bytes that were read and not passed on.
    read: BytesMut,
    /// Count of bytes that may be passed on.
    clear: usize,
    /// Count of bytes of the current frame that are still to come.
    rest: usize,
    /// When the withheld ping is passed on.
    due: Option<Instant>,
}

impl<T> Quiet<T> {
    pub(crate) fn new(stream: T) -> Self {
        Self { stream, read: BytesMut::new(), clear: 0, rest: 0, due: None }
    }

    /// Goes through the read bytes, frame by frame, and removes a ping. The last frame may be too
    /// short to identify it.
    fn sort(&mut self, now: Instant) {
        loop {
            let come = self.rest.min(self.read.len() - self.clear);
            self.clear += come;
            self.rest -= come;
            let next = &self.read[self.clear..];
            if self.rest > 0 || next.len() < FRAME_HEAD_BYTES {
                return;
            }
            if self.due.is_none() && MEASURING.starts_with(&next[..next.len().min(MEASURING.len())])
            {
                if next.len() < MEASURING.len() {
                    return;
                }
                let rest = self.read.split_off(self.clear + MEASURING.len());
                self.read.truncate(self.clear);
                self.read.unsplit(rest);
                self.due = Some(now + WITHHELD);
                continue;
            }
            // No frame may come between the parts of one head.
            if self.due.is_some_and(|due| due <= now) && next[3] != CONTINUATION {
                self.due = None;
                let rest = self.read.split_off(self.clear);
                self.read.extend_from_slice(&MEASURING);
                self.read.unsplit(rest);
                self.clear += MEASURING.len();
            }
            let next = &self.read[self.clear..];
            let length = u32::from_be_bytes([0, next[0], next[1], next[2]]);
            self.rest = FRAME_HEAD_BYTES + length as usize;
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Quiet<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.clear == 0 {
            this.read.reserve(CHUNK_BYTES);
            let come = ready!(pin!(this.stream.read_buf(&mut this.read)).poll(context))?;
            if come == 0 {
                // The bytes that were held back are the end of a frame.
                this.clear = this.read.len();
                break;
            }
            this.sort(Instant::now());
        }
        let some = this.clear.min(into.remaining());
        into.put_slice(&this.read[..some]);
        this.read.advance(some);
        this.clear -= some;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Quiet<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

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
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::{advance, timeout};

    use super::*;

    /// Returns a frame of this type with these bytes.
    fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, 0, 0, 0, 0, 1], bytes].concat()
    }

    fn quiet() -> (DuplexStream, Quiet<DuplexStream>) {
        let (member, client) = duplex(1 << 20);
        (member, Quiet::new(client))
    }

    /// Returns the bytes that have come so far.
    async fn come(client: &mut Quiet<DuplexStream>) -> Vec<u8> {
        let mut bytes = Vec::new();
        while timeout(Duration::ZERO, client.read_buf(&mut bytes))
            .await
            .is_ok_and(|it| it.unwrap() > 0)
        {}
        bytes
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_that_measures_is_passed_on_a_second_later_with_what_comes_then() {
        let (mut member, mut client) = quiet();
        let (one, other) = (frame(0, b"one"), frame(1, b"another one"));
        member.write_all(&[&one[..], &MEASURING, &other].concat()).await.unwrap();
        assert_eq!(come(&mut client).await, [&one[..], &other].concat());
        advance(WITHHELD / 2).await;
        member.write_all(&one).await.unwrap();
        assert_eq!(come(&mut client).await, one);
        advance(WITHHELD / 2).await;
        member.write_all(&other).await.unwrap();
        assert_eq!(come(&mut client).await, [&MEASURING[..], &other].concat());
        member.write_all(&MEASURING).await.unwrap();
        assert_eq!(come(&mut client).await, b"", "the next one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_is_passed_on_behind_a_head_and_not_between_its_parts() {
        let (mut member, mut client) = quiet();
        let (head, more, body) =
            (frame(1, b"head"), frame(CONTINUATION, b"more"), frame(0, b"body"));
        member.write_all(&[&MEASURING[..], &head].concat()).await.unwrap();
        assert_eq!(come(&mut client).await, head);
        advance(WITHHELD).await;
        member.write_all(&more).await.unwrap();
        assert_eq!(come(&mut client).await, more);
        member.write_all(&body).await.unwrap();
        assert_eq!(come(&mut client).await, [&MEASURING[..], &body].concat());
    }

    #[tokio::test(start_paused = true)]
    async fn every_other_ping_is_passed_on_at_once() {
        let (mut member, mut client) = quiet();
        let lives = [0, 0, 8, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let answer = [0, 0, 8, 6, 1, 0, 0, 0, 0, 2, 4, 16, 16, 9, 14, 7, 7];
        for ping in [lives, answer] {
            member.write_all(&ping).await.unwrap();
            assert_eq!(come(&mut client).await, ping);
        }
        // A member that sends the next one without an answer to the first.
        member.write_all(&[MEASURING, MEASURING].concat()).await.unwrap();
        assert_eq!(come(&mut client).await, MEASURING);
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_told_apart_wherever_they_are_cut() {
        // A ping inside of another frame is no ping.
        let (inside, end) = (frame(0, &MEASURING), frame(0, &vec![7; CHUNK_BYTES * 3]));
        let all = [&inside[..], &MEASURING, &frame(4, b""), &end].concat();
        let passed = [&inside[..], &frame(4, b""), &end].concat();
        for size in [1, 2, 7, 16, 17, 18, 100, all.len()] {
            let (mut member, mut client) = quiet();
            let mut bytes = Vec::new();
            for part in all.chunks(size) {
                member.write_all(part).await.unwrap();
                bytes.extend(come(&mut client).await);
            }
            assert_eq!(bytes, passed, "{size} bytes at a time");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_cut_off_at_the_end_is_passed_on_and_so_is_the_end() {
        let (mut member, mut client) = quiet();
        member.write_all(&MEASURING[..12]).await.unwrap();
        assert_eq!(come(&mut client).await, b"");
        drop(member);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(rest, MEASURING[..12]);
    }
}
