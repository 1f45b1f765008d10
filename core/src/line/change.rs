//! The changes between two snapshots of a line, as events.

use std::collections::HashMap;

use crate::event::{Event, EventKind};
use crate::{Place, Ticket, TicketId, TicketState};

/// First the tickets that are gone, then those that are new or changed, both in the order of the
/// line. A ticket is identified by its id. Its number may change until it is served, if several
/// stores have to agree on it.
///
/// `gone` returns the kind of event for a ticket that is gone, from its last place.
///
/// ```
/// use tenure::inspect::EventKind;
/// use tenure::engine::line::changes;
/// use tenure::engine::{Engine, Memory, WaitMode};
/// use tenure::inspect::{Share, Ticket};
/// use tenure::Key;
///
/// # tenure::blocking::block_on(async {
/// let (memory, key) = (Memory::new(), Key::new("a")?);
/// let before = memory.line(&key).await?;
/// memory.join(&Ticket::new(key.clone(), Share::WHOLE), WaitMode::Wait).await?;
/// let now = memory.line(&key).await?;
/// let events = changes(&before, &now, 1_000_000, |_, _| EventKind::Left);
/// let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
/// assert_eq!(kinds, [EventKind::Joined, EventKind::Served]);
/// # Ok::<(), tenure::Error>(()) }).unwrap();
/// ```
pub fn changes(
    before: &[(Ticket, Place)],
    now: &[(Ticket, Place)],
    at_us: u64,
    gone: impl Fn(&Ticket, &Place) -> EventKind,
) -> Vec<Event> {
    let (old, new) = (by_id(before), by_id(now));
    let event = |what, (ticket, place): &(Ticket, Place)| Event {
        at_us,
        kind: what,
        ticket: ticket.clone(),
        number: place.number,
    };
    let is_gone = |(ticket, _): &&(Ticket, Place)| !new.contains_key(&ticket.id);
    let mut events: Vec<Event> =
        before.iter().filter(is_gone).map(|seat| event(gone(&seat.0, &seat.1), seat)).collect();
    for seat in now {
        let before = old.get(&seat.0.id);
        let holds = |place: &Place| place.state == TicketState::Holding;
        if before.is_none() {
            events.push(event(EventKind::Joined, seat));
        }
        if holds(&seat.1) && !before.is_some_and(|(_, place)| holds(place)) {
            events.push(event(EventKind::Served, seat));
        }
        if before.is_some_and(|(old, _)| old.note != seat.0.note || old.share != seat.0.share) {
            events.push(event(EventKind::Changed, seat));
        }
        if seat.1.leaving && before.is_some_and(|(_, place)| !place.leaving) {
            events.push(event(EventKind::Broken, seat));
        }
    }
    events
}

fn by_id(line: &[(Ticket, Place)]) -> HashMap<TicketId, &(Ticket, Place)> {
    line.iter().map(|seat| (seat.0.id, seat)).collect()
}
