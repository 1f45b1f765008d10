//! A journal is what has happened in a book lately, for those who look on.

use std::collections::VecDeque;

use tenure_core::event::{Event, Scope};

/// The oldest events go when there are more than these.
const JOURNAL_EVENTS_MAX: usize = 4096;

/// The events of one book. It is empty until somebody looks on.
#[derive(Default)]
pub(crate) struct Journal {
    events: VecDeque<Event>,
    /// How many events there were before the first of these.
    before: u64,
    kept: bool,
}

impl Journal {
    /// From now on it is kept. Says how far it is.
    pub(crate) fn keep(&mut self) -> u64 {
        self.kept = true;
        self.end()
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept
    }

    pub(crate) fn push(&mut self, event: Event) {
        if self.events.len() == JOURNAL_EVENTS_MAX {
            self.events.pop_front();
            self.before += 1;
        }
        self.events.push_back(event);
    }

    /// Something has happened, and nobody knows what.
    pub(crate) fn gap(&mut self) {
        self.before = self.end() + 1;
        self.events.clear();
    }

    /// How far it is.
    pub(crate) fn end(&self) -> u64 {
        self.before + self.events.len() as u64
    }

    /// What happened since then in scope; `None` if that is no longer known.
    pub(crate) fn since(&self, position: u64, scope: &Scope) -> Option<Vec<Event>> {
        let skip = usize::try_from(position.checked_sub(self.before)?).ok()?;
        let events = self.events.range(skip.min(self.events.len())..);
        Some(events.filter(|event| scope.covers(&event.ticket.key)).cloned().collect())
    }
}
