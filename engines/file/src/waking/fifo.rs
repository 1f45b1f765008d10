//! A FIFO by which one session wakes another: its owner reads from it, and others write to it.
//!
//! It is a hint. A message is lost if its writer dies, or if the FIFO is full. Then the ticket
//! behind the dead one looks for itself, and the reader of a FIFO that may have been full looks at
//! all lines.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tenure_core::sync::Mutex;
use tenure_core::{Result, TicketId};

use crate::log::event_sink::{Notice, NoticeKind};
use crate::log::record::OwnerId;
use crate::os::dir::{Dir, block};
use crate::sessions::session::fifo_name;
use crate::trouble::{no_thread, refused};

/// Bytes of a message. They divide a page, so that a FIFO is filled to the last byte and never with
/// half a message.
const MESSAGE_BYTES: usize = 32;
/// Minimum capacity of a FIFO, a page: with less than this in it, no message was refused.
const FULL_BYTES: usize = 4096;
/// Usual capacity of a FIFO.
const READ_BYTES: usize = 64 * 1024;
/// Maximum open FIFOs of others.
const OPEN_MAX: usize = 128;

/// A message from a session's FIFO.
#[derive(Clone, Copy)]
pub(crate) enum FifoMessage {
    /// One message, about a ticket in this book.
    Told { book: usize, id: TicketId, number: u64, what: NoticeKind },
    /// Messages may be missing.
    TooMuch,
}

/// The FIFO of this session, and those of others.
pub(crate) struct Fifos {
    dir: Arc<Dir>,
    own: OwnerId,
    to_itself: Mutex<Option<File>>,
    others: Mutex<HashMap<OwnerId, File>>,
    closed: Arc<AtomicBool>,
}

impl Fifos {
    pub(crate) fn new(dir: Arc<Dir>, own: OwnerId) -> Self {
        let (to_itself, others, closed) = (Mutex::default(), Mutex::default(), Arc::default());
        Self { dir, own, to_itself, others, closed }
    }

    /// Opens this session's FIFO. A thread of its own calls `hear`, until the FIFO is closed.
    pub(crate) fn listen(&self, hear: impl FnMut(FifoMessage) + Send + 'static) -> Result<()> {
        let refused =
            |error| refused("make a FIFO, which waiting needs, in", self.dir.path(), error);
        let mut fifo = self.to_itself.lock();
        if fifo.is_none() && !self.closed.load(Ordering::SeqCst) {
            let name = fifo_name(self.own);
            let _ = self.dir.remove(&name); // left by an attempt that failed
            let source = self.dir.create_fifo(&name).map_err(refused)?;
            // A write never blocks, and a read does: each has a handle of its own.
            let to_itself = self.dir.open_fifo(&name).map_err(refused)?;
            block(&source).map_err(refused)?;
            let closed = self.closed.clone();
            thread::Builder::new()
                .name("tenure-file-fifo".to_owned())
                .spawn(move || read(source, &closed, hear))
                .map_err(|error| no_thread("waiting", error))?;
            *fifo = Some(to_itself);
        }
        Ok(())
    }

    /// Ends the reading thread, also in the middle of a message.
    pub(crate) fn close(&self) {
        let mut fifo = self.to_itself.lock();
        self.closed.store(true, Ordering::SeqCst);
        if let Some(fifo) = fifo.take() {
            let _ = (&fifo).write(&[0; MESSAGE_BYTES]); // a full one makes its owner look
        }
    }

    /// Notifies the owner of a ticket. A session without a FIFO neither waits nor watches.
    pub(crate) fn tell(&self, book: usize, notice: &Notice) {
        let mut others = self.others.lock();
        if others.len() >= OPEN_MAX {
            others.clear();
        }
        let fifo = match others.entry(notice.session) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let Ok(fifo) = self.dir.open_fifo(&fifo_name(notice.session)) else { return };
                entry.insert(fifo)
            }
        };
        let _ = fifo.write(&encode(book, notice)); // a full one makes its owner look
    }

    /// Closes the FIFO of a dead session.
    pub(crate) fn forget(&self, id: OwnerId) {
        self.others.lock().remove(&id);
    }
}

fn read(mut source: File, closed: &AtomicBool, mut hear: impl FnMut(FifoMessage)) {
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let length = match source.read(&mut buffer) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => {
                tracing::warn!(%error, "the FIFO cannot be read any more; heartbeats will look");
                return;
            }
        };
        if closed.load(Ordering::SeqCst) {
            return;
        }
        if length >= FULL_BYTES {
            hear(FifoMessage::TooMuch);
        } else {
            let (messages, _) = buffer[..length].as_chunks::<MESSAGE_BYTES>();
            for message in messages {
                hear(decode(message).unwrap_or(FifoMessage::TooMuch));
            }
        }
    }
}

fn encode(book: usize, notice: &Notice) -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    message[0] = match notice.what {
        NoticeKind::Served => 1,
        NoticeKind::Look => 2,
        NoticeKind::Behind => 3,
    };
    message[1] = u8::try_from(book).expect("there are few books");
    message[8..16].copy_from_slice(&notice.number.to_le_bytes());
    message[16..].copy_from_slice(&notice.id.to_u128().to_le_bytes());
    message
}

fn decode(message: &[u8; MESSAGE_BYTES]) -> Option<FifoMessage> {
    let what = match message[0] {
        1 => NoticeKind::Served,
        2 => NoticeKind::Look,
        3 => NoticeKind::Behind,
        _ => return None,
    };
    let number = u64::from_le_bytes(message[8..16].try_into().ok()?);
    let id = TicketId::from_u128(u128::from_le_bytes(message[16..].try_into().ok()?));
    Some(FifoMessage::Told { book: message[1].into(), id, number, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_back_as_it_was_sent() {
        for what in [NoticeKind::Served, NoticeKind::Look, NoticeKind::Behind] {
            let (session, id) = (OwnerId(1), TicketId::fresh());
            let sent = encode(63, &Notice { session, id, number: 1 << 52, what });
            let Some(FifoMessage::Told { book, id: heard, number, what: heard_what }) =
                decode(&sent)
            else {
                panic!("it is no message");
            };
            assert_eq!((book, heard, number, heard_what), (63, id, 1 << 52, what));
        }
        assert!(decode(&[0; MESSAGE_BYTES]).is_none());
    }
}
