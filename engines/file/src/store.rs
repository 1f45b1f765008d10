//! A store is a directory with a fixed set of books, and the sessions that use it.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::SystemTime;

use tenure_core::{Error, Key, Result, Wake};

use crate::bell::{Bells, Heard};
use crate::book;
use crate::eyes::Eyes;
use crate::frame::checksum;
use crate::header::Header;
use crate::herald::Tidings;
use crate::news::Cursors;
use crate::peers::Peers;
use crate::record::SessionId;
use crate::session::{self, Session};
use crate::slot::{Haste, Slot};
use crate::stuck::Helper;
use crate::trouble::{self, refused};
use crate::visit::Visit;
use crate::watchers::{Watchers, lock};

/// All keys share these: no file is ever made or removed for a key.
pub(crate) const BOOKS: usize = 64;
/// What the file `store` says once everything is there.
const MARK: &str = "a store of locks, kept by Tenure: form 1\n";

/// One engine value's view of a store.
pub(crate) struct Store {
    pub(crate) dir: PathBuf,
    pub(crate) books: PathBuf,
    pub(crate) session: Session,
    pub(crate) peers: Peers,
    pub(crate) bells: Bells,
    pub(crate) watchers: Watchers,
    pub(crate) eyes: Eyes,
    pub(crate) cursors: Mutex<Cursors>,
    pub(crate) slots: Box<[Mutex<Slot>]>,
    pub(crate) helpers: Box<[Helper]>,
    me: Weak<Self>,
}

impl Store {
    /// Opens the store in this directory, and makes it if there is none.
    pub(crate) fn open(dir: &Path) -> Result<Arc<Self>> {
        let (books, sessions) = (dir.join("books"), dir.join("sessions"));
        make(dir, &books, &sessions)?;
        session::sweep(&sessions).map_err(|error| refused("look into", &sessions, error))?;
        let session =
            Session::begin(&sessions).map_err(|error| refused("write to", &sessions, error))?;
        Ok(Arc::new_cyclic(|me| Self {
            dir: dir.to_owned(),
            books,
            peers: Peers::new(sessions.clone()),
            bells: Bells::new(sessions, session.id),
            session,
            watchers: Watchers::default(),
            eyes: Eyes::new(),
            cursors: Mutex::default(),
            slots: (0..BOOKS).map(|_| Mutex::default()).collect(),
            helpers: (0..BOOKS).map(|_| Helper::default()).collect(),
            me: me.clone(),
        }))
    }

    /// Gives everything back. What is left of it afterwards waits for somebody else.
    pub(crate) fn close(&self) {
        let own = self.session.id;
        for (index, slot) in self.slots.iter().enumerate() {
            if has(slot, own) {
                let left = self.visit(index, Haste::Quick, |visit| {
                    visit.bury(own);
                    Ok(())
                });
                // Then those behind learn it from the end of the session.
                drop(left);
            }
        }
        self.eyes.close();
        self.session.end();
        self.bells.take_down();
    }

    /// This engine, for a thread that must not keep it alive.
    pub(crate) fn weak(&self) -> Weak<Self> {
        self.me.clone()
    }

    /// Refuses to go on if this engine's session is no longer there.
    pub(crate) fn check_session(&self) -> Result<()> {
        if self.session.is_gone() { Err(trouble::removed()) } else { Ok(()) }
    }

    /// Sees to it that others can ring.
    pub(crate) fn hang_bell(&self) -> Result<()> {
        let me = self.weak();
        let hung = self.bells.hang(move |heard| {
            let Some(store) = me.upgrade() else { return false };
            store.heed(heard);
            true
        });
        hung.map_err(|error| {
            refused("make a FIFO, which waiting needs, in", &self.dir.join("sessions"), error)
        })
    }

    fn heed(&self, heard: Heard) {
        match heard {
            Heard::Told { id, number, what: Tidings::Served, .. } => {
                self.watchers.notify(id, Wake::Served(number));
            }
            Heard::Told { id, what: Tidings::Look, .. } => self.watchers.notify(id, Wake::Look),
            Heard::Told { book, id, number, what: Tidings::Behind } => {
                self.look_into(book, |visit| visit.look_behind(id, number));
            }
            Heard::TooMuch => {
                for book in 0..BOOKS {
                    self.look_into(book, look_everywhere);
                }
            }
        }
    }

    /// Looks into a book that this engine knows.
    fn look_into(&self, index: usize, look: impl FnOnce(&mut Visit<'_>)) {
        if !self.slots.get(index).is_some_and(|slot| lock(slot).known) {
            return;
        }
        let looked = self.visit_patiently(index, |visit| {
            look(visit);
            Ok(())
        });
        if looked.is_err() {
            self.watchers.notify_all();
        }
    }

    /// Sees to it that the death of a session is noticed at once.
    pub(crate) fn watch(&self, session: SessionId) {
        let me = self.weak();
        self.peers.watch(session, move || {
            if let Some(store) = me.upgrade() {
                store.died(session);
            }
        });
    }

    /// Takes a dead session out of every book that this engine has looked into.
    fn died(&self, session: SessionId) {
        for index in 0..BOOKS {
            self.look_into(index, |visit| {
                if visit.bury_if_dead(session) {
                    visit.tell_the_first();
                }
            });
        }
        if self.peers.is_dead(session) {
            self.bells.forget(session);
            self.peers.forget(session);
        }
    }
}

fn look_everywhere(visit: &mut Visit<'_>) {
    visit.look_everywhere();
}

fn has(slot: &Mutex<Slot>, session: SessionId) -> bool {
    let slot = slot.try_lock();
    slot.is_ok_and(|slot| slot.book.as_ref().is_some_and(|book| book.state.has(session)))
}

/// Which book a key's line is in. Two keys in one book only share its lock for some microseconds, so
/// nothing hangs on the strength of this hash; but every program that uses the store must agree.
pub(crate) fn book_of(key: &Key) -> usize {
    let hash = checksum(0, key.as_str().as_bytes());
    usize::try_from(hash >> (u64::BITS - BOOKS.ilog2())).expect("it is below the number of books")
}

/// Microseconds since 1970.
pub(crate) fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Which start of the machine this is; zero where that cannot be known.
pub(crate) fn boot() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| match fs::read("/proc/sys/kernel/random/boot_id") {
        Ok(id) => checksum(0, &id),
        Err(_) => 0,
    })
}

/// Makes whatever is missing. The file `store` is written last, and locked meanwhile.
fn make(dir: &Path, books: &Path, sessions: &Path) -> Result<()> {
    let mark = dir.join("store");
    let failed = |error| refused("write to", &mark, error);
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&mark)
        .map_err(failed)?;
    file.lock().map_err(failed)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(failed)?;
    if text == MARK {
        return Ok(());
    }
    if !text.is_empty() {
        return Err(Error::rejected(format!(
            "{} was made by another version of Tenure, or by something else: it says {text:?}",
            dir.display()
        )));
    }
    for dir in [books, sessions] {
        fs::create_dir_all(dir).map_err(|error| refused("make", dir, error))?;
    }
    for index in (0..BOOKS).filter(|index| !book::path(books, *index).exists()) {
        let header = Header { book: index as u64, boot: boot(), ..Header::default() };
        book::create(books, header, &[], None, false)
            .map_err(|error| refused("write to", books, error))?;
    }
    file.write_all(MARK.as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(name: &str) -> usize {
        book_of(&Key::new(name).unwrap())
    }

    #[test]
    fn a_key_is_in_the_same_book_for_every_version() {
        assert_eq!([book("a"), book("invoices/42"), book("nightly")], [57, 29, 0]);
    }

    #[test]
    fn keys_are_spread_over_all_books() {
        let mut full = [0_u32; BOOKS];
        for key in 0..64_000 {
            full[book(&format!("orders/{key}"))] += 1;
        }
        assert!(full.iter().all(|keys| (800..1200).contains(keys)), "{full:?}");
    }
}
