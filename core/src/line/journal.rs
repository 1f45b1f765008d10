//! A journal: the latest events, for watchers.

use std::collections::VecDeque;

use crate::event::{Event, Scope};

/// Maximum events in a journal. Watchers that fall behind by more miss some.
const JOURNAL_EVENTS_MAX: usize = 4096;

/// The latest events of some lines. It keeps none until the first watcher comes.
///
/// ```
/// use tenure::inspect::{Event, EventKind, Scope};
/// use tenure::engine::line::Journal;
/// use tenure::inspect::{Share, Ticket};
/// use tenure::Key;
///
/// let mut journal = Journal::default();
/// let seen = journal.keep();
/// let (key, at_us, number) = (Key::new("a")?, 1_000_000, 7);
/// let ticket = Ticket::new(key.clone(), Share::WHOLE);
/// journal.push(Event::new(EventKind::Joined, at_us, ticket, number));
/// assert_eq!(journal.since(seen, &Scope::Key(key.clone())).map(|events| events.len()), Some(1));
/// journal.gap();
/// assert_eq!(journal.since(seen, &Scope::Key(key)), None, "the events since are not known");
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Journal {
    events: VecDeque<Event>,
    /// Number of events before the first of these.
    before: u64,
    kept: bool,
}

impl Journal {
    /// Keeps events from now on. Returns the present position.
    pub fn keep(&mut self) -> u64 {
        self.kept = true;
        self.end()
    }

    /// Whether events are kept.
    pub fn is_kept(&self) -> bool {
        self.kept
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event) {
        if self.events.len() == JOURNAL_EVENTS_MAX {
            self.events.pop_front();
            self.before += 1;
        }
        self.events.push_back(event);
    }

    /// Records that unknown events happened.
    pub fn gap(&mut self) {
        self.before = self.end() + 1;
        self.events.clear();
    }

    /// The present position.
    pub fn end(&self) -> u64 {
        self.before + self.events.len() as u64
    }

    /// The events in scope after a position. `None`: they are no longer known.
    pub fn since(&self, end: u64, scope: &Scope) -> Option<Vec<Event>> {
        let skip = usize::try_from(end.checked_sub(self.before)?).ok()?;
        let events = self.events.range(skip.min(self.events.len())..);
        Some(events.filter(|event| scope.covers(&event.ticket.key)).cloned().collect())
    }
}
