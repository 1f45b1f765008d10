//! A journal: what has happened lately, for those who look on.

use std::collections::VecDeque;

use crate::event::{Event, Scope};

/// Onlookers who fall behind by more events than this miss some.
const JOURNAL_EVENTS_MAX: usize = 4096;

/// The latest events of some lines. It keeps none until somebody looks on.
///
/// ```
/// use tenure::{event::Event, event::Scope, event::EventKind};
/// use tenure::engine::line::Journal;
/// use tenure::{Key, Share, Ticket};
///
/// let mut journal = Journal::default();
/// let seen = journal.keep();
/// let (key, at_us, number) = (Key::new("a")?, 1_000_000, 7);
/// let ticket = Ticket::new(key.clone(), Share::WHOLE);
/// journal.push(Event { at_us, kind: EventKind::Joined, ticket, number });
/// assert_eq!(journal.since(seen, &Scope::Key(key.clone())).map(|events| events.len()), Some(1));
/// journal.gap();
/// assert_eq!(journal.since(seen, &Scope::Key(key)), None, "it is no longer known what happened since");
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Journal {
    events: VecDeque<Event>,
    /// How many events there were before the first of these.
    before: u64,
    kept: bool,
}

impl Journal {
    /// From now on events are kept. Says how far it is.
    pub fn keep(&mut self) -> u64 {
        self.kept = true;
        self.end()
    }

    /// Whether somebody looks on, so that events are worth being made.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Keeps an event.
    pub fn push(&mut self, event: Event) {
        if self.events.len() == JOURNAL_EVENTS_MAX {
            self.events.pop_front();
            self.before += 1;
        }
        self.events.push_back(event);
    }

    /// Something has happened, and nobody knows what.
    pub fn gap(&mut self) {
        self.before = self.end() + 1;
        self.events.clear();
    }

    /// How far it is.
    pub fn end(&self) -> u64 {
        self.before + self.events.len() as u64
    }

    /// What happened in scope since it was so far; `None` if that is no longer known.
    pub fn since(&self, end: u64, scope: &Scope) -> Option<Vec<Event>> {
        let skip = usize::try_from(end.checked_sub(self.before)?).ok()?;
        let events = self.events.range(skip.min(self.events.len())..);
        Some(events.filter(|event| scope.covers(&event.ticket.key)).cloned().collect())
    }
}
