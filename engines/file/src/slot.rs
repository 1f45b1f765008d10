//! A slot is where an engine keeps a book between its visits, and finds out what others have done.

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

use tenure_core::Result;

use crate::book::{self, Book, Look};
use crate::header::Header;
use crate::herald::{Herald, Notice};
use crate::journal::Journal;
use crate::store::{Store, boot, now_us};
use crate::trouble;

/// A book is locked for some microseconds. After so many attempts its owner is not just busy.
const SPINS_MAX: u32 = 32;
const YIELDS_MAX: u32 = 128;
/// In case a power cut took the last numbers with it, all that come after it are above any that
/// this much time, in µs, can have made.
const REBOOT_GAP_US: u64 = 3_600_000_000;

/// How long to try to get in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Never hold up an executor.
    Quick,
    /// As long as it takes.
    Patient,
}

/// Where a book is kept between visits.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) book: Option<Book>,
    pub(crate) journal: Journal,
    /// What was heard of, and is to be told when a visit ends.
    pub(crate) notices: Vec<Notice>,
    /// The last generation of which everything was heard.
    heard: Option<u64>,
    /// It was visited before.
    pub(crate) known: bool,
}

impl Slot {
    /// Locks the file and reads what is new. `None`: it could not be locked in haste. Otherwise
    /// says whether something may have happened that nobody can tell.
    pub(crate) fn catch_up(
        &mut self,
        store: &Store,
        index: usize,
        haste: Haste,
    ) -> Result<Option<bool>> {
        let failed = |error| trouble::refused("read", &book::path(&store.books, index), error);
        let mut gap = false;
        loop {
            let Some(book) = &mut self.book else {
                match self.open(store, index, haste)? {
                    Some(continues) => gap |= !continues,
                    None => return Ok(None),
                }
                continue;
            };
            // A book that was just opened is locked already; locking it again changes nothing.
            if !lock_file(book.file(), haste).map_err(failed)? {
                return Ok(None);
            }
            let own = store.session.id;
            let heeded = store.watchers.any();
            let mut herald = Herald::new(own, heeded, 0, &mut self.journal, &mut self.notices);
            match book.catch_up(&mut herald).map_err(failed)? {
                Look::Current => break,
                Look::Replaced => {
                    self.heard = Some(book.header().generation);
                    self.book = None;
                    store.check_session()?;
                }
                Look::Damaged(why) => {
                    store.check_session()?;
                    store.set_aside(index, self, Some(why))?;
                    self.forget();
                }
            }
        }
        self.settle(store, index)?;
        gap &= self.known;
        self.known = true;
        if gap {
            self.journal.gap();
        }
        Ok(Some(gap))
    }

    /// Opens the file of this name. Says whether everything since the last look can be heard.
    fn open(&mut self, store: &Store, index: usize, haste: Haste) -> Result<Option<bool>> {
        let path = book::path(&store.books, index);
        let failed = |error| trouble::refused("open", &path, error);
        let file = match File::options().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                store.check_session()?;
                store.set_aside(index, self, None)?;
                return Ok(Some(false));
            }
            Err(error) => return Err(failed(error)),
        };
        if !lock_file(&file, haste).map_err(failed)? {
            return Ok(None);
        }
        if rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?.st_nlink == 0 {
            // It was replaced just now: again.
            return Ok(Some(true));
        }
        let Some(book) = Book::open(file, index, self.heard).map_err(failed)? else {
            store.check_session()?;
            store.set_aside(index, self, Some("it has no header"))?;
            return Ok(Some(false));
        };
        let continues = self.heard.is_some_and(|heard| heard + 1 == book.header().generation);
        self.book = Some(book);
        Ok(Some(continues))
    }

    /// The first visit since the machine was started writes the book anew.
    fn settle(&mut self, store: &Store, index: usize) -> Result<()> {
        if self.known {
            return Ok(());
        }
        let book = self.book.as_mut().expect("it was just read");
        let header = Header { boot: boot(), ..book.header() };
        if header.boot == book.header().boot {
            return Ok(());
        }
        let now_us = now_us();
        let (floor, _) = book.state.snapshot(now_us);
        let header = Header { floor: floor.saturating_add(REBOOT_GAP_US), ..header };
        book.rewrite(&store.books, header, now_us)
            .map_err(|error| trouble::refused("write", &book::path(&store.books, index), error))
    }

    /// What is in memory is not to be trusted.
    pub(crate) fn forget(&mut self) {
        if let Some(book) = self.book.take() {
            let _it_is_closed_soon = book.file().unlock();
        }
        self.heard = None;
        self.journal.gap();
    }
}

/// Gets hold of a slot. `None`: others have it for too long.
pub(crate) fn enter(slot: &Mutex<Slot>, haste: Haste) -> Option<MutexGuard<'_, Slot>> {
    if haste == Haste::Patient {
        return Some(slot.lock().unwrap_or_else(PoisonError::into_inner));
    }
    attempt(|| match slot.try_lock() {
        Ok(slot) => Some(slot),
        Err(TryLockError::Poisoned(slot)) => Some(slot.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    })
}

fn lock_file(file: &File, haste: Haste) -> io::Result<bool> {
    if haste == Haste::Patient {
        while let Err(error) = file.lock() {
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
        return Ok(true);
    }
    let locked = attempt(|| match file.try_lock() {
        Ok(()) => Some(Ok(())),
        Err(std::fs::TryLockError::WouldBlock) => None,
        Err(std::fs::TryLockError::Error(error)) => Some(Err(error)),
    });
    locked.transpose().map(|locked| locked.is_some())
}

fn attempt<T>(mut once: impl FnMut() -> Option<T>) -> Option<T> {
    for turn in 0..SPINS_MAX + YIELDS_MAX {
        if let Some(done) = once() {
            return Some(done);
        }
        if turn < SPINS_MAX {
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
    None
}
