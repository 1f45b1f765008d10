//! A draft is a new book before its rename: it is whole, locked, and has a name of its own.

use std::fs::File;
use std::io::{self, Error};

use crate::log::frame;
use crate::log::header::{HEADER_BYTES, Header};
use crate::log::record::Record;
use crate::log::shelf;
use crate::os::dir::{Dir, Owner, is_as_good, write_at};
use crate::os::flock::{self, Haste};

/// Suffix of the names of drafts.
const SUFFIX: &str = ".new";

/// A book that takes its place, or leaves nothing behind.
pub(crate) struct Draft<'a> {
    name: TemporaryName<'a>,
    file: File,
    header: Header,
    durable: bool,
}

/// A name that is removed unless the file got its place.
struct TemporaryName<'a> {
    dir: &'a Dir,
    text: String,
    placed: bool,
}

impl<'a> Draft<'a> {
    /// Writes a book that begins with these records.
    ///
    /// `whose` is the owner of the book that it replaces, who must be able to use it too.
    pub(crate) fn write(
        dir: &'a Dir,
        header: Header,
        records: &[(Record<'_>, u64)],
        whose: Option<Owner>,
        durable: bool,
    ) -> io::Result<Self> {
        let mut log = Vec::new();
        for (record, at_us) in records {
            let base = HEADER_BYTES as u64;
            frame::push(&mut log, header.seed(), base, |body| record.encode(*at_us, body));
        }
        let header = Header { kept_bytes: log.len() as u64, ..header };
        let draft = Self::begin(dir, header, durable)?;
        if let Some(whose) = whose {
            dir.share(&draft.file, Some(whose))?;
            if !is_as_good(&draft.file, whose)? {
                let sentence = "only root can write it anew for the user it belongs to";
                return Err(Error::new(io::ErrorKind::PermissionDenied, sentence));
            }
        }
        write_at(&draft.file, &header.encode(), 0)?;
        write_at(&draft.file, &log, HEADER_BYTES as u64)?;
        if durable {
            draft.file.sync_all()?;
        }
        Ok(draft)
    }

    /// Creates a file with a new name. An old file that another process has left is in no way.
    fn begin(dir: &'a Dir, header: Header, durable: bool) -> io::Result<Self> {
        loop {
            let chance = getrandom::u64().map_err(|error| Error::other(error.to_string()))?;
            let name = format!("{}.{chance:016x}{SUFFIX}", shelf::name(header.book));
            let file = dir.create_file(&name)?;
            // Before it is locked, other processes take it for a dead process's file.
            let name = TemporaryName { dir, text: name, placed: false };
            if flock::lock(&file, Haste::Quick)? && dir.means(&name.text, &file)? {
                return Ok(Self { name, file, header, durable });
            }
        }
    }

    /// Renames it to its place. It stays locked until the file is closed.
    pub(crate) fn place(self) -> io::Result<(File, Header)> {
        let Self { mut name, file, header, durable } = self;
        name.dir.rename(&name.text, &shelf::name(header.book))?;
        name.placed = true;
        if durable {
            name.dir.sync()?;
        }
        Ok((file, header))
    }
}

impl Drop for TemporaryName<'_> {
    fn drop(&mut self) {
        if !self.placed {
            let _ = self.dir.remove(&self.text); // a later sweep removes it
        }
    }
}

/// Removes the drafts of this book that dead processes have left.
pub(crate) fn sweep(dir: &Dir, book: u64) {
    let place = shelf::name(book);
    for name in dir.names().unwrap_or_default() {
        let Some(name) = name.to_str() else { continue };
        if !name.starts_with(&place) || !name.ends_with(SUFFIX) {
            continue;
        }
        let dead = match dir.open_to_read(name) {
            Ok(file) => flock::is_free(&file),
            Err(error) => error.kind() == io::ErrorKind::InvalidInput,
        };
        if dead {
            let _ = dir.remove(name); // it may be another user's
        }
    }
}
