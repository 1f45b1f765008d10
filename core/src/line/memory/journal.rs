//! What lately happened to all lines of a memory store, kept once somebody looks on.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::Ticket;
use crate::event::{Cursor, Event, News, Scope, What};

/// Onlookers who fall behind by more events than this miss some.
const JOURNAL_EVENTS_MAX: usize = 4096;

#[derive(Default)]
pub(crate) struct Journal {
    open: bool,
    /// The events that are still known; the last has the number `last`.
    known: VecDeque<Event>,
    last: u64,
    written: Arc<Notify>,
}

impl Journal {
    /// From now on events are kept.
    pub(crate) fn open(&mut self) -> Cursor {
        self.open = true;
        Cursor(self.last)
    }

    /// Keeps an event, if anybody ever looked; whoever looks on is to be told.
    pub(crate) fn note(&mut self, at_us: u64, what: What, ticket: &Ticket, number: u64) -> bool {
        if !self.open {
            return false;
        }
        if self.known.len() == JOURNAL_EVENTS_MAX {
            self.known.pop_front();
        }
        self.known.push_back(Event { at_us, what, ticket: ticket.clone(), number });
        self.last += 1;
        true
    }

    pub(crate) fn written(&self) -> Arc<Notify> {
        self.written.clone()
    }

    pub(crate) fn since(&self, scope: &Scope, after: Cursor) -> News {
        let behind = usize::try_from(self.last.saturating_sub(after.0)).unwrap_or(usize::MAX);
        let missed = behind > self.known.len();
        let fresh = self.known.iter().skip(self.known.len().saturating_sub(behind));
        let events = fresh.filter(|event| scope.covers(&event.ticket.key)).cloned().collect();
        News { events, cursor: Cursor(self.last), missed }
    }
}
