//! No joins and no looks after a damage: the sessions that lived then may hold locks that the new
//! book does not have.

use std::borrow::Cow;

use tenure_core::{Error, Result};

use crate::log::record::{OwnerId, Record};
use crate::visits::visit::Visit;

impl Visit<'_> {
    /// Refuses joins of and looks into a book that was damaged while sessions lived that still do.
    pub(crate) fn refuse_the_damaged(&mut self) -> Result<()> {
        let Some(scar) = self.state().scar.as_ref().filter(|scar| !scar.sessions.is_empty()) else {
            return Ok(());
        };
        let (own, peers) = (self.context.session.id, &self.context.peers);
        let lives = |id: &&OwnerId| **id == own || !peers.is_dead(**id);
        let living: Vec<_> = scar.sessions.iter().filter(lives).collect();
        if living.is_empty() {
            let aside = Cow::Owned(scar.aside.clone());
            let record = Record::DamageHold { aside, sessions: Cow::Owned(Vec::new()) };
            let at_us = scar.at_us;
            self.change(|state, hear| state.replay(record.clone(), at_us, hear));
            self.record_as_of(&record, at_us);
            return Ok(());
        }
        let who: Vec<_> = living.into_iter().map(|id| peers.describe(*id)).collect();
        Err(Error::rejected(format!(
            "locks were lost when a file of the store was damaged (set aside as {}): these may hold one, and no lock of that file can be taken or shown until they have ended: {}",
            scar.aside,
            who.join(", ")
        )))
    }
}
