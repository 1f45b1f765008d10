//! Watching a ticket: a notice at once when its state differs from the known one.

use std::sync::Arc;

use tenure_core::{Result, Ticket, TicketState, Wake};

use crate::log::shelf::book_of;
use crate::verbs::line::look_ahead;
use crate::verbs::news;
use crate::visits::store::StoreView;
use crate::visits::visit::Visit;

/// The result of a look at a ticket.
enum TicketView {
    Changed(Wake),
    Same { own: bool },
}

/// Waits, as the contract of [`watch`](tenure_core::Engine::watch) requires.
pub(crate) async fn wait(
    store: &Arc<StoreView>,
    ticket: &Ticket,
    seen: TicketState,
) -> Result<Wake> {
    store.listen()?;
    // Later events arrive as notices, and earlier ones show in the look.
    let watcher = store.context.watchers.register(ticket.id);
    let look = move |visit: &mut Visit<'_>, ticket: &Ticket| Ok(view(visit, ticket, seen));
    let index = book_of(&ticket.key);
    store.context.check_session()?;
    match store.at(index, ticket, look).await? {
        TicketView::Changed(wake) => return Ok(wake),
        TicketView::Same { own: true } => {}
        TicketView::Same { own: false } => return watch_foreign(store, ticket, look).await,
    }
    loop {
        match watcher.news().await {
            // The caller knows that already.
            Wake::Served(_) if seen == TicketState::Holding => {}
            wake => return Ok(wake),
        }
    }
}

/// Watches the ticket of another session, which gets no notices: looks whenever its book changes.
async fn watch_foreign(
    store: &Arc<StoreView>,
    ticket: &Ticket,
    look: impl Fn(&mut Visit<'_>, &Ticket) -> Result<TicketView> + Copy + Send + 'static,
) -> Result<Wake> {
    let index = book_of(&ticket.key);
    let watcher = news::look_on(store, 1 << index)?;
    loop {
        if let TicketView::Changed(wake) = store.at(index, ticket, look).await? {
            return Ok(wake);
        }
        watcher.changes().await;
    }
}

fn view(visit: &mut Visit<'_>, ticket: &Ticket, seen: TicketState) -> TicketView {
    let Some(place) = look_ahead(visit, ticket).filter(|place| !place.leaving) else {
        return TicketView::Changed(Wake::Look);
    };
    match (seen, place.state) {
        (TicketState::Waiting, TicketState::Holding) => {
            TicketView::Changed(Wake::Served(place.number))
        }
        (TicketState::Holding, TicketState::Waiting) => TicketView::Changed(Wake::Look),
        _ => {
            let row = visit.state().rows.get(&ticket.key);
            let seat = row.and_then(|row| row.seat(place.number));
            let session = seat.map(|seat| seat.session);
            if let Some(other) = session.filter(|session| *session != visit.context.session.id) {
                visit.watch(other);
            }
            TicketView::Same { own: session == Some(visit.context.session.id) }
        }
    }
}
