//! Damage: a book that cannot be ours is set aside, and nobody trusts it or throws it away.

use std::borrow::Cow;
use std::fs::{self, File};

use tenure_core::{Error, Result};

use crate::book;
use crate::header::Header;
use crate::record::{Record, SessionId};
use crate::session;
use crate::slot::Slot;
use crate::store::{Store, boot, now_us};
use crate::trouble::refused;
use crate::visit::Visit;

/// Numbers that nobody knows of any more were made by the clock, at most so much ahead of it.
const GAP_US: u64 = 3_600_000_000;

impl Store {
    /// Puts a new book in the place of one that is damaged (`why`), or missing.
    ///
    /// Whoever lives now may hold something in the old one: it is written into the new one who that is.
    pub(crate) fn set_aside(&self, index: usize, slot: &mut Slot, why: Option<&str>) -> Result<()> {
        let place = book::path(&self.books, index);
        let failed = |error| refused("set aside", &place, error);
        // Two who find the same damage do not both mend it.
        let mark = self.dir.join("store");
        let mark = File::open(&mark).map_err(|error| refused("open", &mark, error))?;
        mark.lock().map_err(failed)?;
        let now_us = now_us();
        let aside = match why {
            None if place.exists() => return Ok(()),
            None => format!("nothing: {} was removed", place.display()),
            Some(_) => {
                let aside = self.dir.join(format!("damaged-{index:02x}-{now_us}"));
                fs::copy(&place, &aside).map_err(failed)?;
                aside.display().to_string()
            }
        };
        let sessions = self.living(slot)?;
        let known = slot.book.as_ref().map_or(0, |book| book.state.snapshot(now_us).0);
        let header = Header {
            book: index as u64,
            // Far from any it had, so that everyone knows that something is missing between.
            generation: now_us,
            floor: known.max(now_us).saturating_add(GAP_US),
            boot: boot(),
            kept_bytes: 0,
        };
        tracing::warn!(
            book = index,
            aside,
            reason = why.unwrap_or("it was not there"),
            alive = sessions.len(),
            "a book of the lock store was damaged, and is set aside"
        );
        let record = Record::Embargo { aside: aside.into(), sessions: sessions.into() };
        let like = fs::metadata(&place).ok().map(|old| old.permissions());
        book::create(&self.books, header, &[(record, now_us)], like, true).map_err(failed)?;
        Ok(())
    }

    fn living(&self, slot: &Slot) -> Result<Vec<SessionId>> {
        let dir = self.dir.join("sessions");
        let mut living = session::list(&dir).map_err(|error| refused("look into", &dir, error))?;
        let own = self.session.id;
        let own_is_there = match &slot.book {
            Some(book) => book.state.has(own),
            None => slot.known,
        };
        living.retain(|id| if *id == own { own_is_there } else { !self.peers.is_dead(*id) });
        Ok(living)
    }
}

impl Visit<'_> {
    /// Lets nobody join a book that was damaged while others lived who still do.
    pub(crate) fn refuse_the_damaged(&mut self) -> Result<()> {
        let Some(scar) = self.state().scar.as_ref().filter(|scar| !scar.sessions.is_empty()) else {
            return Ok(());
        };
        let own = self.store.session.id;
        let lives = |id: &&SessionId| **id == own || !self.store.peers.is_dead(**id);
        let living: Vec<_> = scar.sessions.iter().filter(lives).collect();
        if living.is_empty() {
            let aside = scar.aside.clone();
            let record =
                Record::Embargo { aside: Cow::Owned(aside), sessions: Cow::Owned(Vec::new()) };
            let at_us = scar.at_us;
            self.change(|state, hear| state.replay(record.clone(), at_us, hear));
            self.record_as_of(&record, at_us);
            return Ok(());
        }
        let who: Vec<_> = living.into_iter().map(|id| self.store.peers.describe(*id)).collect();
        Err(Error::rejected(format!(
            "locks were lost when a file of the store was damaged (set aside as {}): these may hold one, and nobody can join until they have ended: {}",
            scar.aside,
            who.join(", ")
        )))
    }
}
