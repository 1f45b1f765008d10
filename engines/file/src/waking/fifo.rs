//! A FIFO is how one session wakes another: its owner reads from it, and anyone may write to it.
//!
//! It is a hint. A message is lost if its writer dies, or if the FIFO is full; then whoever is
//! behind the dead looks for itself, and whoever reads a FIFO that may have been full looks at
//! everything.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use tenure_core::{Result, TicketId};

use crate::log::herald::{Notice, Tidings};
use crate::log::record::SessionId;
use crate::os::dir::{Dir, block};
use crate::sessions::session::fifo_name;
use crate::sync::lock;
use crate::trouble::{no_thread, refused};

/// Divides a page, so that a FIFO is filled to the last byte and never with half a message.
const MESSAGE_BYTES: usize = 32;
/// A FIFO holds at least a page: with less than this in it, no message was turned away.
const FULL_BYTES: usize = 4096;
/// All that a FIFO usually holds.
const READ_BYTES: usize = 64 * 1024;
/// So many FIFOs of others are kept open.
const OPEN_MAX: usize = 128;

/// What a session hears from its FIFO.
#[derive(Clone, Copy)]
pub(crate) enum Heard {
    /// One message, about a ticket in this book.
    Told { book: usize, id: TicketId, number: u64, what: Tidings },
    /// Messages may be missing.
    TooMuch,
}

/// The FIFO of this session, and those of others.
pub(crate) struct Fifos {
    dir: Arc<Dir>,
    own: SessionId,
    to_itself: Mutex<Option<File>>,
    others: Mutex<HashMap<SessionId, File>>,
    closed: Arc<AtomicBool>,
}

impl Fifos {
    pub(crate) fn new(dir: Arc<Dir>, own: SessionId) -> Self {
        let (to_itself, others, closed) = (Mutex::default(), Mutex::default(), Arc::default());
        Self { dir, own, to_itself, others, closed }
    }

    /// Sees to it that this session can be told. `hear` is called from a thread of its own, until
    /// the FIFO is closed.
    pub(crate) fn listen(&self, hear: impl FnMut(Heard) + Send + 'static) -> Result<()> {
        let refused =
            |error| refused("make a FIFO, which waiting needs, in", self.dir.path(), error);
        let mut fifo = lock(&self.to_itself);
        if fifo.is_none() && !self.closed.load(Ordering::SeqCst) {
            let name = fifo_name(self.own);
            let _of_an_attempt_that_failed = self.dir.remove(&name);
            let source = self.dir.create_fifo(&name).map_err(refused)?;
            // To write never blocks, and to listen does: they are opened each for itself.
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

    /// Ends the thread that listens, whatever it is just about to hear.
    pub(crate) fn close(&self) {
        let mut fifo = lock(&self.to_itself);
        self.closed.store(true, Ordering::SeqCst);
        if let Some(fifo) = fifo.take() {
            let _a_full_one_tells_enough = (&fifo).write(&[0; MESSAGE_BYTES]);
        }
    }

    /// Tells the owner of a ticket. One without a FIFO neither waits nor watches.
    pub(crate) fn tell(&self, book: usize, notice: &Notice) {
        let mut others = lock(&self.others);
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
        let _a_full_one_tells_enough = fifo.write(&encode(book, notice));
    }

    /// Closes the FIFO of a dead session.
    pub(crate) fn forget(&self, id: SessionId) {
        lock(&self.others).remove(&id);
    }
}

fn read(mut source: File, closed: &AtomicBool, mut hear: impl FnMut(Heard)) {
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
            hear(Heard::TooMuch);
        } else {
            let (messages, _) = buffer[..length].as_chunks::<MESSAGE_BYTES>();
            for message in messages {
                hear(decode(message).unwrap_or(Heard::TooMuch));
            }
        }
    }
}

fn encode(book: usize, notice: &Notice) -> [u8; MESSAGE_BYTES] {
    let mut message = [0; MESSAGE_BYTES];
    message[0] = match notice.what {
        Tidings::Served => 1,
        Tidings::Look => 2,
        Tidings::Behind => 3,
    };
    message[1] = u8::try_from(book).expect("there are few books");
    message[8..16].copy_from_slice(&notice.number.to_le_bytes());
    message[16..].copy_from_slice(&notice.id.to_u128().to_le_bytes());
    message
}

fn decode(message: &[u8; MESSAGE_BYTES]) -> Option<Heard> {
    let what = match message[0] {
        1 => Tidings::Served,
        2 => Tidings::Look,
        3 => Tidings::Behind,
        _ => return None,
    };
    let number = u64::from_le_bytes(message[8..16].try_into().ok()?);
    let id = TicketId::from_u128(u128::from_le_bytes(message[16..].try_into().ok()?));
    Some(Heard::Told { book: message[1].into(), id, number, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_back_as_it_was_sent() {
        for what in [Tidings::Served, Tidings::Look, Tidings::Behind] {
            let (session, id) = (SessionId(1), TicketId::fresh());
            let sent = encode(63, &Notice { session, id, number: 1 << 52, what });
            let Some(Heard::Told { book, id: heard, number, what: heard_what }) = decode(&sent)
            else {
                panic!("it is no message");
            };
            assert_eq!((book, heard, number, heard_what), (63, id, 1 << 52, what));
        }
        assert!(decode(&[0; MESSAGE_BYTES]).is_none());
    }
}
