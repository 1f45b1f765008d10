//! A book is a log of records in one file, and the state that it comes to.
//!
//! Everything here is called while the file is locked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::frame::{self, Cut};
use crate::header::{HEADER_BYTES, Header};
use crate::herald::Herald;
use crate::record::Record;
use crate::state::State;

/// A log shorter than this is never written anew.
const LOG_BYTES_KEPT: u64 = 128 * 1024;

/// An open book.
pub(crate) struct Book {
    file: Arc<File>,
    header: Header,
    pub(crate) state: State,
    /// Where the next record goes: behind the last whole one.
    end: u64,
    /// Records before this are no news.
    old_until: u64,
    /// When the last record was written; a clock that is set back does not go behind it.
    last_us: u64,
    /// Frames that are decided and not written yet.
    pending: Vec<u8>,
    /// From this length on the log is worth writing anew.
    long_from: u64,
    /// The disk knows for good that the file is there.
    anchored: bool,
}

/// What looking at the file has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The state is that of the file.
    Current,
    /// The name means another file now.
    Replaced,
    /// It is no log of ours, for this reason.
    Damaged(&'static str),
}

impl Book {
    /// Reads the header of a file. `None`: it has none.
    ///
    /// `heard`: the generation of which every record was heard. The records of the next one are
    /// news from the first on.
    pub(crate) fn open(file: File, index: usize, heard: Option<u64>) -> io::Result<Option<Self>> {
        let mut bytes = [0; HEADER_BYTES];
        match file.read_exact_at(&mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let Some(header) = Header::decode(&bytes, index as u64) else { return Ok(None) };
        let mut book = Self::fresh(file, header);
        if heard.is_none_or(|heard| heard + 1 != header.generation) {
            book.old_until = rustix::fs::fstat(&book.file)?.st_size.unsigned_abs();
        }
        Ok(Some(book))
    }

    fn fresh(file: File, header: Header) -> Self {
        let kept_until = HEADER_BYTES as u64 + header.kept_bytes;
        Self {
            file: Arc::new(file),
            state: State::above(header.floor),
            end: HEADER_BYTES as u64,
            old_until: kept_until,
            last_us: 0,
            pending: Vec::new(),
            long_from: LOG_BYTES_KEPT.max(3 * kept_until),
            anchored: false,
            header,
        }
    }

    /// The file, which carries the lock.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// When something that happens now has happened: not before anything that did already.
    pub(crate) fn moment(&self, now_us: u64) -> u64 {
        now_us.max(self.last_us)
    }

    /// Replays what others have written since the last look.
    pub(crate) fn catch_up(&mut self, herald: &mut Herald<'_>) -> io::Result<Look> {
        let stat = rustix::fs::fstat(&self.file)?;
        let size = stat.st_size.unsigned_abs();
        let replaced = stat.st_nlink == 0;
        if size < self.end {
            return Ok(if replaced { Look::Replaced } else { Look::Damaged("it became shorter") });
        }
        if size > self.end {
            let mut tail = vec![0; usize::try_from(size - self.end).expect("a log fits in memory")];
            self.file.read_exact_at(&mut tail, self.end)?;
            if let Some(why) = self.replay(&tail, herald) {
                return Ok(if replaced { Look::Replaced } else { Look::Damaged(why) });
            }
        }
        if replaced || self.state.retired {
            return Ok(Look::Replaced);
        }
        if size > self.end {
            // The writer of this tail died in the middle: what it wanted never happened.
            self.file.set_len(self.end)?;
        }
        Ok(Look::Current)
    }

    /// Replays whole records. Says why if they cannot be ours.
    fn replay(&mut self, mut tail: &[u8], herald: &mut Herald<'_>) -> Option<&'static str> {
        let kept_until = HEADER_BYTES as u64 + self.header.kept_bytes;
        loop {
            let body = match frame::cut(tail, self.header.seed(), self.end) {
                Cut::Whole(body) => body,
                Cut::End | Cut::Torn if self.end >= kept_until => return None,
                Cut::End | Cut::Torn => return Some("what it keeps is cut short"),
                Cut::Damaged => return Some("a record does not match its checksum"),
            };
            let Some((record, at_us)) = Record::decode(body) else {
                return Some("a record is none of ours");
            };
            self.last_us = self.last_us.max(at_us);
            herald.read(at_us, self.end < self.old_until);
            if !self.state.replay(record, at_us, &mut |note| herald.hear(note)) {
                return Some("a record cannot follow the one before it");
            }
            let length = frame::HEAD_BYTES + body.len();
            self.end += length as u64;
            tail = &tail[length..];
        }
    }

    /// Decides on a record. It has happened once it is written.
    pub(crate) fn push(&mut self, record: &Record<'_>, at_us: u64) {
        let (seed, end) = (self.header.seed(), self.end);
        self.last_us = self.last_us.max(at_us);
        frame::push(&mut self.pending, seed, end, |body| record.encode(at_us, body));
    }

    /// Whether anything is decided and not written.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes what is decided, with one call: it is there, or it is not.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let written = self.file.write_all_at(&self.pending, self.end);
        match written {
            Ok(()) => self.end += self.pending.len() as u64,
            // Half a record is none, but the next writer should not have to find out.
            Err(_) => self.file.set_len(self.end)?,
        }
        self.pending.clear();
        written
    }

    /// Whether writing the log anew would pay.
    pub(crate) fn is_long(&self) -> bool {
        self.end >= self.long_from
    }

    /// It could not be written anew: tries again when it is twice as long.
    pub(crate) fn put_off(&mut self) {
        self.long_from = self.end * 2;
    }

    /// Writes the log anew, as short as can be, and puts it in the place of the old one.
    pub(crate) fn rewrite(&mut self, dir: &Path, header: Header, now_us: u64) -> io::Result<()> {
        let (floor, records) = self.state.snapshot(now_us);
        let header = Header {
            generation: self.header.generation + 1,
            floor: floor.max(header.floor),
            ..header
        };
        let durable = !self.state.sequences.is_empty();
        let like = self.file.metadata()?.permissions();
        let (file, header) = create(dir, header, &records, Some(like), durable)?;
        drop(records);
        self.retire();
        self.state.floor = header.floor;
        self.state.rows.retain(|_, row| !row.is_empty() || row.last() > header.floor);
        self.state.counts.retain(|_, count| count.ends_us > now_us);
        let (state, last_us) = (std::mem::take(&mut self.state), self.last_us);
        *self = Self { state, last_us, anchored: durable, ..Self::fresh(file, header) };
        self.end = HEADER_BYTES as u64 + header.kept_bytes;
        Ok(())
    }

    /// Tells whoever still has this file open that it is over. They would also see that no
    /// name is left, unless a backup has linked it to another.
    fn retire(&mut self) {
        self.pending.clear();
        self.push(&Record::Retired, 0);
        let _hint = self.write();
    }

    /// Makes sure that the file is still there, under its name, after a power cut.
    pub(crate) fn anchor(&mut self, dirs: &[&Path]) -> io::Result<()> {
        if !self.anchored {
            self.file.sync_all()?;
            for dir in dirs {
                File::open(dir)?.sync_all()?;
            }
            self.anchored = true;
        }
        Ok(())
    }
}

/// Where a book is.
pub(crate) fn path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("{index:02x}"))
}

/// Writes a book that begins with these records, and puts it into its place, locked.
pub(crate) fn create(
    dir: &Path,
    header: Header,
    records: &[(Record<'_>, u64)],
    like: Option<fs::Permissions>,
    durable: bool,
) -> io::Result<(File, Header)> {
    let mut log = Vec::new();
    for (record, at_us) in records {
        let base = HEADER_BYTES as u64;
        frame::push(&mut log, header.seed(), base, |body| record.encode(*at_us, body));
    }
    let header = Header { kept_bytes: log.len() as u64, ..header };
    let index = usize::try_from(header.book).expect("there are few books");
    let (place, unnamed) = (path(dir, index), dir.join(format!("{index:02x}.new")));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&unnamed)?;
    if let Some(like) = like {
        file.set_permissions(like)?;
    }
    file.write_all_at(&header.encode(), 0)?;
    file.write_all_at(&log, HEADER_BYTES as u64)?;
    if durable {
        file.sync_all()?;
    }
    // Nobody can have it open, so nobody is waited for; and nobody will see it unlocked.
    file.lock()?;
    fs::rename(&unnamed, &place)?;
    if durable {
        File::open(dir)?.sync_all()?;
    }
    Ok((file, header))
}
