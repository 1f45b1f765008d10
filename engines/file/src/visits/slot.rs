//! A slot keeps a book between visits, and reads the changes of others.

use std::io;
use std::sync::{Arc, MutexGuard};

use tenure_core::line::Journal;
use tenure_core::sync::Mutex;
use tenure_core::{Error, Result};

use crate::log::book::{Book, Found};
use crate::log::event_sink::{EventSink, Notice};
use crate::log::shelf;
use crate::os::flock::{self, Haste};
use crate::trouble;
use crate::visits::context::StoreContext;
use crate::visits::damage::{self, BookMemory};

/// Maximum times that a book is opened again because it was replaced meanwhile.
const TURNS_MAX: u32 = 100;

/// A slot for a book between visits.
#[derive(Default)]
pub(crate) struct BookSlot {
    pub(crate) book: Option<Book>,
    pub(crate) journal: Journal,
    /// Notices to send when a visit ends.
    pub(crate) notices: Vec<Notice>,
    /// The last generation of which every event was seen.
    heard: Option<u64>,
    /// It was visited before.
    pub(crate) known: bool,
}

/// The result of opening a book.
enum OpenOutcome {
    /// It is open. `continues`: every event since the last look can be read.
    Here { continues: bool },
    /// It was replaced meanwhile: retry.
    Again { continues: bool },
    /// It could not be locked in time.
    Locked,
}

impl BookSlot {
    /// Locks the file and reads the new records. Returns `None` if it could not be locked in time,
    /// and otherwise whether events may be missing.
    pub(crate) fn catch_up(
        &mut self,
        context: &StoreContext,
        index: usize,
        haste: Haste,
    ) -> Result<Option<bool>> {
        let path = || context.books.path_of(&shelf::name(index as u64));
        let failed = |error| trouble::refused("read", &path(), error);
        let mut gap = false;
        for _ in 0..TURNS_MAX {
            let Some(book) = &mut self.book else {
                match self.open(context, index, haste)? {
                    OpenOutcome::Here { continues } | OpenOutcome::Again { continues } => {
                        gap |= !continues;
                    }
                    OpenOutcome::Locked => return Ok(None),
                }
                continue;
            };
            // A book that was just opened is locked already; a second lock changes nothing.
            if !flock::lock(book.file(), haste).map_err(failed)? {
                return Ok(None);
            }
            let heeded = context.watchers.any();
            let (own, journal) = (context.session.id, &mut self.journal);
            let mut sink = EventSink::new(own, heeded, 0, journal, &mut self.notices);
            match book.catch_up(&context.books, &mut sink).map_err(failed)? {
                Found::Current => {
                    gap &= self.known;
                    self.known = true;
                    if gap {
                        self.journal.gap();
                    }
                    return Ok(Some(gap));
                }
                Found::Replaced => {
                    self.heard = Some(book.header().generation);
                    self.book = None;
                    context.check_session()?;
                }
                Found::Damaged(why) => {
                    context.check_session()?;
                    let file = book.file().clone();
                    damage::set_aside(context, index, self.memory(), &file, why)?;
                    self.forget();
                }
                Found::Newer => return Err(trouble::newer(&path())),
            }
        }
        Err(Error::unavailable(format!(
            "{} is another file each time it is opened",
            path().display()
        )))
    }

    /// Opens the file of this name, and locks it.
    fn open(&mut self, context: &StoreContext, index: usize, haste: Haste) -> Result<OpenOutcome> {
        let name = shelf::name(index as u64);
        let failed = |error| trouble::refused("open", &context.books.path_of(&name), error);
        let file = match context.books.open_file(&name) {
            Ok(file) => Arc::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                context.check_session()?;
                let made = damage::replace_missing(context, index, self.memory(), haste)?;
                return Ok(if made {
                    OpenOutcome::Again { continues: false }
                } else {
                    OpenOutcome::Locked
                });
            }
            Err(error) => return Err(failed(error)),
        };
        if !flock::lock(&file, haste).map_err(failed)? {
            return Ok(OpenOutcome::Locked);
        }
        if !context.books.means(&name, &file).map_err(failed)? {
            return Ok(OpenOutcome::Again { continues: true });
        }
        context.books.tighten(&file);
        let book = match Book::open(&file, index, self.heard).map_err(failed)? {
            Ok(book) => book,
            Err(Found::Damaged(why)) => {
                context.check_session()?;
                damage::set_aside(context, index, self.memory(), &file, why)?;
                return Ok(OpenOutcome::Again { continues: false });
            }
            Err(_) => return Err(trouble::newer(&context.books.path_of(&name))),
        };
        let continues = self.heard.is_some_and(|heard| heard + 1 == book.header().generation);
        self.book = Some(book);
        Ok(OpenOutcome::Here { continues })
    }

    fn memory(&self) -> BookMemory<'_> {
        BookMemory { book: self.book.as_ref(), known: self.known }
    }

    /// Drops the state in memory, which is not reliable, and the notices of changes that were not
    /// written. The next visit lets all waiters look.
    pub(crate) fn forget(&mut self) {
        self.notices.clear();
        if let Some(book) = self.book.take() {
            let _ = book.file().unlock(); // the close unlocks it, too
        }
        self.heard = None;
        self.journal.gap();
    }
}

/// Locks a slot; `None` if others have it for too long.
pub(crate) fn enter(slot: &Mutex<BookSlot>, haste: Haste) -> Option<MutexGuard<'_, BookSlot>> {
    // The owner is another thread of this process, which runs.
    flock::attempt(haste, || slot.try_lock(), || true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tenure_core::ErrorKind;

    use super::*;
    use crate::checksum::checksum;
    use crate::log::frame;
    use crate::log::header::{HEADER_BYTES, Header};
    use crate::os::dir::Dir;

    #[test]
    fn a_book_of_a_later_version_is_refused_and_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let context = StoreContext::open(Dir::open(dir.path()).unwrap()).unwrap();
        let path = context.books.path_of(&shelf::name(0));
        let book = fs::read(&path).unwrap();
        let seed = Header::decode(&book, 0).unwrap().seed();
        let mut of_later_header = book.clone();
        of_later_header[6] = b'2';
        let sum = checksum(0, &of_later_header[..HEADER_BYTES - 8]);
        of_later_header[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        let mut record = Vec::new();
        frame::push(&mut record, seed, book.len() as u64, |body| body.extend([200; 30]));
        for bytes in [of_later_header, [book, record].concat()] {
            fs::write(&path, &bytes).unwrap();
            let mut slot = BookSlot::default();
            let error = slot.catch_up(&context, 0, Haste::Quick).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected);
            let sentence = error.to_string();
            let names = sentence.contains(path.to_str().unwrap());
            assert!(names && sentence.contains("update this program"), "{sentence}");
            assert_eq!(fs::read(&path).unwrap(), bytes);
            let names = context.root.names().unwrap();
            assert!(names.iter().all(|name| !name.to_string_lossy().starts_with("damaged-")));
        }
    }
}
