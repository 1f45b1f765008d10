//! Damage: a book that is not this engine's is set aside. It is neither believed nor deleted.

use std::borrow::Cow;
use std::fs::File;
use std::io;

use tenure_core::Result;

use crate::log::book::Book;
use crate::log::draft::Draft;
use crate::log::header::Header;
use crate::log::record::{OwnerId, Record};
use crate::log::salvage::Salvage;
use crate::log::shelf;
use crate::os::boot::Boot;
use crate::os::dir::{self, Owner};
use crate::os::flock::{self, Haste};
use crate::sessions::session;
use crate::trouble::refused;
use crate::visits::context::{StoreContext, now_us};
use crate::visits::mark;

/// Gap above the clock for new numbers: lost numbers were made by the clock, at most this far ahead
/// of it, in µs.
const GAP_US: u64 = 3_600_000_000;

/// This engine's memory of a book.
#[derive(Clone, Copy)]
pub(crate) struct BookMemory<'a> {
    pub(crate) book: Option<&'a Book>,
    /// It was visited before.
    pub(crate) known: bool,
}

/// Replaces a damaged book.
///
/// The caller has `file` locked, and has checked since that the book's name means it. So no other
/// process can replace it, and others that find the damage see the new book next.
pub(crate) fn set_aside(
    context: &StoreContext,
    index: usize,
    memory: BookMemory<'_>,
    file: &File,
    why: &str,
) -> Result<()> {
    let name = shelf::name(index as u64);
    let failed = |error| refused("set aside", &context.books.path_of(&name), error);
    let aside = format!("damaged-{name}-{}", now_us());
    let path = context.root.path_of(&aside).display().to_string();
    let mut saved = Salvage::read(file, index, now_us()).map_err(failed)?;
    memory.book.into_iter().for_each(|book| saved.remember(book));
    let whose = dir::look_at(file).map_err(failed)?.owner;
    let draft = write(context, index, memory, &saved, path, Some(whose), why)?;
    keep(context, &name, file, &aside).map_err(failed)?;
    draft.place().map(drop).map_err(failed)
}

/// Makes a new book where one is missing. Returns `false` if another process is doing that.
pub(crate) fn replace_missing(
    context: &StoreContext,
    index: usize,
    memory: BookMemory<'_>,
    haste: Haste,
) -> Result<bool> {
    let name = shelf::name(index as u64);
    let path = context.books.path_of(&name);
    let failed = |error| refused("make anew", &path, error);
    // There is no file to lock. The mark's lock keeps two processes from both making it.
    let mark = context.root.open_file(mark::NAME).map_err(failed)?;
    if !flock::lock(&mark, haste).map_err(failed)? {
        return Ok(false);
    }
    if context.books.look(&*name).map_err(failed)?.is_none() {
        let mut saved = Salvage::default();
        memory.book.into_iter().for_each(|book| saved.remember(book));
        let aside = format!("nothing: {} was removed", path.display());
        let draft = write(context, index, memory, &saved, aside, None, "it was not there")?;
        draft.place().map_err(failed)?;
    }
    Ok(true)
}

/// Writes a book that begins above all saved numbers, with the sessions that live now and may hold
/// something.
fn write<'a>(
    context: &'a StoreContext,
    index: usize,
    memory: BookMemory<'_>,
    saved: &Salvage,
    aside: String,
    whose: Option<Owner>,
    why: &str,
) -> Result<Draft<'a>> {
    let now_us = now_us();
    let sessions = living(context, memory)?;
    tracing::warn!(
        alive = sessions.len(),
        "file {} of the lock store was damaged: {why} (set aside as {aside})",
        shelf::name(index as u64)
    );
    // Forgotten sequences go on from here.
    let at_us = now_us.max(saved.last_us);
    let header = Header {
        book: index as u64,
        // Far from any earlier one, so that all readers know that something is missing between.
        generation: now_us,
        floor: saved.floor.max(now_us).saturating_add(GAP_US),
        boot: Boot::now().0,
        kept_bytes: 0,
    };
    let mut records =
        vec![(Record::DamageHold { aside: aside.into(), sessions: sessions.into() }, at_us)];
    for (key, number) in &saved.far {
        records.push((Record::Above { key: Cow::Borrowed(key), number: *number }, at_us));
    }
    for (key, value) in &saved.sequences {
        let value = at_us.max(*value);
        records.push((Record::Sequence { key: Cow::Borrowed(key), value }, at_us));
    }
    for (key, (written_us, value)) in &saved.values {
        let (key, value) = (Cow::Borrowed(key), Cow::Borrowed(value.as_str()));
        records.push((Record::Value { key, value }, *written_us));
    }
    Draft::write(&context.books, header, &records, whose, true).map_err(|error| {
        refused("write anew", &context.books.path_of(&shelf::name(index as u64)), error)
    })
}

/// Keeps the damaged file under another name, or as a copy.
fn keep(context: &StoreContext, name: &str, file: &File, aside: &str) -> io::Result<()> {
    if context.books.link(name, &context.root, aside).is_ok() {
        return Ok(());
    }
    let mut from = file;
    io::Seek::rewind(&mut from)?;
    let mut copy = context.root.create_file(aside)?;
    let copied = io::copy(&mut from, &mut copy);
    if copied.is_err() {
        // Half a copy is worth nothing, and would fill a full disk.
        let _ = context.root.remove(aside); // the rest is harmless
    }
    copied.map(drop)
}

fn living(context: &StoreContext, memory: BookMemory<'_>) -> Result<Vec<OwnerId>> {
    let listed = session::list(&context.sessions);
    let mut living =
        listed.map_err(|error| refused("look into", context.sessions.path(), error))?;
    let own = context.session.id;
    let own_is_there = match memory.book {
        // A book that was damaged at its first read may hide this session's tickets behind the
        // damage.
        Some(book) if book.was_current => book.state.has(own),
        _ => memory.known,
    };
    living.retain(|id| if *id == own { own_is_there } else { !context.peers.is_dead(*id) });
    Ok(living)
}
