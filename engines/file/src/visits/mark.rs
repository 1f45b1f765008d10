//! The mark is the file that makes a directory a store. It is written once everything else is
//! there.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::time::Duration;

use tenure_core::{Error, Result};

use crate::log::draft::Draft;
use crate::log::header::Header;
use crate::log::shelf::{self, BOOKS};
use crate::os::boot::Boot;
use crate::os::dir::{Dir, write_at};
use crate::os::flock::{self, Haste, Patience};
use crate::trouble::{held, refused};

/// The file's name.
pub(crate) const NAME: &str = "store";
/// Its content.
const MARK: &str = "a store of locks, kept by Tenure: form 1\n";
/// Maximum bytes of a mark.
const MARK_BYTES_MAX: u64 = 4096;

/// Time for which an opening waits for another process that runs and makes the store. Its 64 files
/// take 4 to 15 ms of a processor, which a busy machine has spread over 10 s.
const MADE_WITHIN: Duration = Duration::from_secs(60);

/// The state of a store that a process opens.
enum Turn {
    /// All parts are there.
    Made(Dir, Dir),
    /// Parts are missing, and no other process makes them: the mark is locked.
    Make,
}

/// Makes the missing parts of a store, and returns the directories of its books and its sessions.
///
/// Many processes may open a new store at once. One of them makes it, and the others go on as soon
/// as it is there, without the lock: each of them may be suspended at any moment.
pub(crate) fn make(root: &Dir) -> Result<(Dir, Dir)> {
    let path = root.path_of(NAME);
    let failed = |error| refused("write to", &path, error);
    let file = open(root).map_err(|error| refused("open", &path, error))?;
    let turn = flock::attempt(
        Haste::Patient(Patience::with(MADE_WITHIN)),
        || turn(root, &file).transpose(),
        || flock::has_running_owner(&file),
    );
    match turn.transpose().map_err(failed)? {
        Some(Turn::Made(books, sessions)) => return Ok((books, sessions)),
        Some(Turn::Make) => {}
        None => return Err(held(&path, root.look(NAME).ok().flatten().map(|look| look.id))),
    }
    let text = read(&file).map_err(failed)?;
    let begun = MARK.starts_with(&text) && text != MARK;
    // A power cut leaves zeros in a file that was written just before.
    if !begun && text != MARK && text.bytes().any(|byte| byte != 0) {
        return Err(Error::rejected(format!(
            "{} was made by another version of Tenure, or by something else: it says {text:?}",
            root.path().display()
        )));
    }
    let make = |name: &str| {
        root.make_below(name).map_err(|error| refused("make", &root.path_of(name), error))
    };
    let (books, sessions) = (make("books")?, make("sessions")?);
    if begun {
        fill(&books).map_err(|error| refused("write to", books.path(), error))?;
    }
    write_at(&file, MARK.as_bytes(), 0).map_err(failed)?;
    file.set_len(MARK.len() as u64).map_err(failed)?;
    Ok((books, sessions))
}

/// Returns `None` while another process makes the store.
fn turn(root: &Dir, file: &File) -> io::Result<Option<Turn>> {
    if read(file)? == MARK
        && let (Ok(books), Ok(sessions)) = (root.below("books"), root.below("sessions"))
    {
        return Ok(Some(Turn::Made(books, sessions)));
    }
    Ok(flock::try_lock(file)?.then_some(Turn::Make))
}

fn open(root: &Dir) -> io::Result<File> {
    loop {
        match root.open_file(NAME) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => return opened,
        }
        match root.create_file(NAME) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made,
        }
    }
}

fn read(file: &File) -> io::Result<String> {
    let mut text = Vec::new();
    let mut from_the_start = file;
    io::Seek::rewind(&mut from_the_start)?;
    from_the_start.take(MARK_BYTES_MAX).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Makes new books, which no process can have used yet.
fn fill(books: &Dir) -> io::Result<()> {
    for book in 0..BOOKS as u64 {
        if books.look(shelf::name(book))?.is_none() {
            let header = Header { book, boot: Boot::now().0, ..Header::default() };
            Draft::write(books, header, &[], None, false)?.place()?;
        }
    }
    Ok(())
}
