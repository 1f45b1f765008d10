//! Events: the position of each onlooker, and the events since then.

use std::sync::Arc;

use tenure_core::Result;
use tenure_core::event::{Cursor, Event, EventBatch, Scope};

use crate::log::shelf::{BOOKS, book_of};
use crate::os::Books;
use crate::trouble::refused;
use crate::visits::store::StoreView;
use crate::visits::visit::Visit;
use crate::waking::event_watchers::EventWatcher;

/// The events of one book.
struct BookEvents {
    events: Vec<Event>,
    position: u64,
    missed: bool,
}

/// Waits for events, as the contract of [`events`](tenure_core::Engine::events) requires.
pub(crate) async fn read(
    store: &Arc<StoreView>,
    scope: &Scope,
    after: Option<Cursor>,
) -> Result<EventBatch> {
    let wanted = books(scope);
    let watcher = look_on(store, wanted)?;
    let known = after.and_then(|cursor| store.cursors.lock().mean(cursor));
    let lost = after.is_some() && known.is_none();
    let mut positions = known.map_or_else(|| vec![None; BOOKS], |positions| positions.to_vec());
    let (mut events, mut missed) = (Vec::new(), lost);
    let mut changed = wanted;
    loop {
        for index in (0..BOOKS).filter(|index| changed & (1 << index) != 0) {
            let page = page(store, index, scope, positions[index]).await?;
            events.extend(page.events);
            missed |= page.missed;
            positions[index] = Some(page.position);
        }
        // In each line this is the order of the events; across lines it is that of the clock.
        events.sort_by_key(|event: &Event| event.at_us);
        if after.is_none() || missed || !events.is_empty() {
            let cursor = store.cursors.lock().give(positions.into());
            return Ok(EventBatch { events, cursor, missed });
        }
        changed = watcher.changes().await;
    }
}

async fn page(
    store: &Arc<StoreView>,
    index: usize,
    scope: &Scope,
    after: Option<u64>,
) -> Result<BookEvents> {
    let turn = move |visit: &mut Visit<'_>, scope: &Scope| Ok(turn(visit, scope, after));
    store.at(index, scope, turn).await
}

/// Subscribes to every change of these books.
pub(crate) fn look_on(store: &StoreView, wanted: Books) -> Result<EventWatcher> {
    let opened = store.event_watchers.open(store.context.books.path(), wanted);
    opened.map_err(|error| refused("watch", store.context.books.path(), error))
}

fn turn(visit: &mut Visit<'_>, scope: &Scope, after: Option<u64>) -> BookEvents {
    let rows = visit.state().rows.iter().filter(|(key, _)| scope.covers(key));
    let sessions: Vec<_> = rows.flat_map(|(_, row)| row.slots()).map(|seat| seat.session).collect();
    for session in sessions {
        // No process records a death unless one looks.
        if !visit.bury_if_dead(session) {
            visit.watch(session);
        }
    }
    let journal = visit.journal();
    let position = journal.keep();
    match after.map(|after| journal.since(after, scope)) {
        None => BookEvents { events: Vec::new(), position, missed: false },
        Some(Some(events)) => BookEvents { events, position, missed: false },
        Some(None) => BookEvents { events: Vec::new(), position, missed: true },
    }
}

fn books(scope: &Scope) -> Books {
    match scope {
        Scope::Key(key) => 1 << book_of(key),
        Scope::Prefix(_) => Books::MAX,
    }
}
