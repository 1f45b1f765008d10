//! A book is a log of records in one file, and the resulting state.
//!
//! All functions here need the lock of the file.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::log::draft::{self, Draft};
use crate::log::event_sink::EventSink;
use crate::log::frame::{self, Cut};
use crate::log::header::{HEADER_BYTES, Header};
use crate::log::record::Record;
use crate::log::shelf::name;
use crate::log::state::BookState;
use crate::os::boot::Boot;
use crate::os::dir::{self, Dir, FileId, read_at, write_at};

/// Minimum bytes of a log that its open book rewrites.
const LOG_BYTES_KEPT: u64 = 1024 * 1024;
/// Bytes that a process reads to get in before it rewrites the log, so that the next one need not
/// read them.
const LOG_BYTES_READ_MAX: u64 = 32 * 1024;
/// Gap above the last known number after a start of the machine. A power cut may have taken the
/// last numbers, and none can be above what this time, in µs, makes.
const REBOOT_GAP_US: u64 = 3_600_000_000;

/// An open book.
pub(crate) struct Book {
    file: Arc<File>,
    id: FileId,
    name: CString,
    header: Header,
    pub(crate) state: BookState,
    /// The place of the next record: behind the last whole one.
    end: u64,
    /// Records before this are no news.
    old_until: u64,
    /// The time of the last record. A clock that is set back does not go behind it.
    last_us: u64,
    /// Frames that are decided and not written yet.
    pending: Vec<u8>,
    /// Length from which a rewrite of the log pays.
    long_from: u64,
    /// The state was once that of the whole file, so it is true for this engine's own tickets.
    pub(crate) was_current: bool,
    /// The machine did not start between this log's beginning and now.
    settled: bool,
}

/// The result of a look at the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The state is that of the file.
    Current,
    /// The name means another file now, or none.
    Replaced,
    /// It is no log of this engine, for this reason.
    Damaged(&'static str),
    /// A later version of this engine has written its header or a record.
    Newer,
}

impl Book {
    /// Reads the header of a file. Returns the reason if it has none that can be read.
    ///
    /// `heard` is the generation of which every record was seen. All records of the next one are
    /// news.
    pub(crate) fn open(
        file: &Arc<File>,
        index: usize,
        heard: Option<u64>,
    ) -> io::Result<Result<Self, Found>> {
        let damaged = Found::Damaged("it has no header");
        let mut bytes = [0; HEADER_BYTES];
        match read_at(file, &mut bytes, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Err(damaged)),
            read => read?,
        }
        let Some(header) = Header::decode(&bytes, index as u64) else {
            return Ok(Err(if Header::is_newer(&bytes) { Found::Newer } else { damaged }));
        };
        let mut book = Self::fresh(file.clone(), header)?;
        if heard.is_none_or(|heard| heard + 1 != header.generation) {
            book.old_until = dir::look_at(file)?.bytes;
        }
        Ok(Ok(book))
    }

    fn fresh(file: Arc<File>, header: Header) -> io::Result<Self> {
        let kept_until = HEADER_BYTES as u64 + header.kept_bytes;
        Ok(Self {
            id: dir::look_at(&file)?.id,
            name: CString::new(name(header.book)).expect("digits are no zeros"),
            file,
            state: BookState::above(header.floor),
            end: HEADER_BYTES as u64,
            old_until: kept_until,
            last_us: 0,
            pending: Vec::new(),
            long_from: LOG_BYTES_KEPT.max(3 * kept_until),
            was_current: false,
            settled: false,
            header,
        })
    }

    /// Returns the file, which has the lock.
    pub(crate) fn file(&self) -> &Arc<File> {
        &self.file
    }

    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// Returns the time for a new record: not before that of an earlier one.
    pub(crate) fn moment(&self, now_us: u64) -> u64 {
        now_us.max(self.last_us)
    }

    /// Replays the records of others since the last look.
    ///
    /// Only the name shows whether this is still the book. A backup may have given the file a
    /// second name, and the process that replaced it may have died before it wrote that into the
    /// file.
    pub(crate) fn catch_up(&mut self, dir: &Dir, sink: &mut EventSink<'_>) -> io::Result<Found> {
        let named = dir.look(&*self.name)?.filter(|named| named.id == self.id);
        let size = match named {
            Some(named) => named.bytes,
            None => dir::look_at(&self.file)?.bytes,
        };
        let fault = self.read_until(size, sink)?;
        if named.is_none() {
            return Ok(Found::Replaced);
        }
        if let Some(found) = fault {
            return Ok(found);
        }
        if self.state.retired {
            return Ok(Found::Damaged("it is an old copy of a book that was written anew since"));
        }
        if size > self.end {
            // The writer of this tail died in the middle: its record never happened.
            self.file.set_len(self.end)?;
        }
        self.was_current = true;
        Ok(Found::Current)
    }

    /// Reads on to the end of the file. Returns the reason if it cannot be read so far.
    fn read_until(&mut self, size: u64, sink: &mut EventSink<'_>) -> io::Result<Option<Found>> {
        if size < self.end {
            return Ok(Some(Found::Damaged("it became shorter")));
        }
        if size == self.end {
            return Ok(None);
        }
        let mut tail = vec![0; usize::try_from(size - self.end).expect("a log fits in memory")];
        read_at(&self.file, &mut tail, self.end)?;
        let opened = self.end == HEADER_BYTES as u64;
        let fault = self.replay(&tail, sink);
        let kept_until = HEADER_BYTES as u64 + self.header.kept_bytes;
        if opened && self.end >= LOG_BYTES_READ_MAX.max(3 * kept_until) {
            self.long_from = self.end;
        }
        Ok(fault)
    }

    /// Replays whole records. Returns the reason if one cannot be replayed.
    fn replay(&mut self, mut tail: &[u8], sink: &mut EventSink<'_>) -> Option<Found> {
        let kept_until = HEADER_BYTES as u64 + self.header.kept_bytes;
        let damaged = |why| Some(Found::Damaged(why));
        loop {
            let body = match frame::cut(tail, self.header.seed(), self.end) {
                Cut::Whole(body) => body,
                Cut::End | Cut::Torn if self.end >= kept_until => return None,
                Cut::End | Cut::Torn => return damaged("what it keeps is cut short"),
                Cut::Damaged => return damaged("a record does not match its checksum"),
            };
            // Its checksum is right, so no damage has made it.
            let Some((record, at_us)) = Record::decode(body) else { return Some(Found::Newer) };
            self.last_us = self.last_us.max(at_us);
            sink.read(at_us, self.end < self.old_until);
            if !self.state.replay(record, at_us, &mut |note| sink.hear(note)) {
                return damaged("a record cannot follow the one before it");
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

    /// Returns whether any record is decided and not written.
    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes the decided records, with one call: they are there, or they are not.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        let written = write_at(&self.file, &self.pending, self.end);
        match written {
            Ok(()) => self.end += self.pending.len() as u64,
            // Half a record is no record. Cut it off, so that the next writer need not.
            Err(_) => self.file.set_len(self.end)?,
        }
        self.pending.clear();
        written
    }

    /// Returns whether a rewrite of the log would pay.
    pub(crate) fn is_long(&self) -> bool {
        self.end >= self.long_from
    }

    /// Retries the rewrite when the log is twice as long.
    pub(crate) fn put_off(&mut self) {
        self.long_from = self.end * 2;
    }

    /// Returns whether the machine did not start between the last rewrite and now.
    pub(crate) fn is_settled(&mut self, now_us: u64) -> bool {
        if !self.settled {
            let (then, now) = (Boot(self.header.boot), Boot::now());
            self.settled = then == now || then.is_same(now, self.last_us, now_us);
        }
        self.settled
    }

    /// Rewrites the log as short as possible, and renames it over the old one. Returns the old
    /// file, unlocked: its close takes longer than others should wait.
    pub(crate) fn rewrite(&mut self, dir: &Dir, now_us: u64) -> io::Result<Arc<File>> {
        let gap = if self.is_settled(now_us) { 0 } else { REBOOT_GAP_US };
        let (floor, records) = self.state.snapshot(now_us);
        let header = Header {
            generation: self.header.generation + 1,
            floor: floor.max(self.header.floor).saturating_add(gap),
            boot: Boot::now().0,
            ..self.header
        };
        let durable = self.state.is_durable();
        let whose = dir::look_at(&self.file)?.owner;
        let draft = Draft::write(dir, header, &records, Some(whose), durable)?;
        drop(records);
        let (file, header) = draft.place()?;
        let fresh = Self::fresh(Arc::new(file), header)?;
        self.retire();
        draft::sweep(dir, header.book);
        self.state.floor = header.floor;
        self.state.rows.retain(|_, row| !row.is_empty() || row.last() > header.floor);
        self.state.counts.retain(|_, count| count.ends_us > now_us);
        let (state, last_us) = (std::mem::take(&mut self.state), self.last_us);
        let end = HEADER_BYTES as u64 + header.kept_bytes;
        let fresh = Self { state, last_us, end, was_current: true, settled: true, ..fresh };
        let old = std::mem::replace(self, fresh).file;
        let _ = old.unlock(); // the close unlocks it, too
        Ok(old)
    }

    /// Marks this file as retired for processes that have it open under any name.
    fn retire(&mut self) {
        self.pending.clear();
        self.push(&Record::Retired, 0);
        let _ = self.write(); // The record is only a hint.
    }

    /// Flushes the file and its name, so that they survive a power cut. The first number of a
    /// sequence or the first value in it has done that already.
    pub(crate) fn anchor(&self, books: &Dir, root: &Dir) -> io::Result<()> {
        if !self.state.is_durable() {
            self.file.sync_all()?;
            books.sync()?;
            root.sync()?;
            root.sync_above()?;
        }
        Ok(())
    }
}
