//! Joining a line, renewing, and leaving: the part of each inside of a visit.

use std::borrow::Cow;

use tenure_core::{
    Key, LeaveMode, LeaveOutcome, Place, Result, Share, Ticket, TicketState, WaitMode,
};

use crate::log::record::{OwnerId, Record};
use crate::visits::visit::Visit;

/// Joins a line. `listen` ensures that other processes can notify this session.
pub(crate) fn join(
    visit: &mut Visit<'_>,
    ticket: &Ticket,
    patience: WaitMode,
    listen: impl Fn() -> Result<()>,
) -> Result<Option<Place>> {
    visit.context.check_session_briefly()?;
    visit.settle()?;
    visit.refuse_the_damaged()?;
    loop {
        let place = match put(visit, ticket, patience)? {
            Some(place) => place,
            None if bury_one_ahead(visit, &ticket.key, ticket.share) => continue,
            None => return Ok(None),
        };
        return match place.state {
            TicketState::Holding => Ok(Some(place)),
            TicketState::Waiting => {
                let place = look_ahead(visit, ticket);
                if place.is_some_and(|place| place.state == TicketState::Waiting) {
                    listen()?;
                }
                Ok(place)
            }
        };
    }
}

/// Puts the ticket into its line; `None` if it is busy, or if the ticket was asked to leave.
fn put(visit: &mut Visit<'_>, ticket: &Ticket, patience: WaitMode) -> Result<Option<Place>> {
    let session = visit.context.session.id;
    let now_us = visit.now_us;
    let (joined, changed, place) = visit.change(|state, hear| {
        let now_us = now_us.max(state.floor.saturating_add(1));
        let row = state.row(&ticket.key);
        let (seats, last) = (row.slots().len(), row.last());
        let mut heard = false;
        let place = row.join(session, ticket, patience, now_us, &mut |note| {
            heard = true;
            hear(note);
        });
        (row.slots().len() > seats, heard || row.last() > last, place)
    });
    let place = place?;
    let cow = Cow::Borrowed(ticket);
    match place {
        Some(Place { number, .. }) if joined => {
            visit.record(&Record::Joined { session, number, ticket: cow });
        }
        _ if changed => visit.record(&Record::Changed { ticket: cow }),
        _ => {}
    }
    Ok(place)
}

/// Removes a dead session that makes a line busy. Returns whether there was one.
fn bury_one_ahead(visit: &mut Visit<'_>, key: &Key, share: Share) -> bool {
    let Some(row) = visit.state().rows.get(key) else { return false };
    // A ticket that takes the whole capacity waits for any living one: the others do not matter.
    let enough = if share.take() == share.of() { 1 } else { usize::MAX };
    let sessions = distinct(row.slots().take(enough).map(|seat| seat.session));
    sessions.into_iter().any(|session| visit.bury_if_dead(session))
}

/// Removes the dead sessions ahead of a ticket, and watches the others. Returns where it stands
/// now.
pub(crate) fn look_ahead(visit: &mut Visit<'_>, ticket: &Ticket) -> Option<Place> {
    loop {
        let row = visit.state().rows.get(&ticket.key)?;
        let place = row.place(ticket.id)?;
        if place.state == TicketState::Holding {
            return Some(place);
        }
        let own = row.seat(place.number)?.session == visit.context.session.id;
        let ahead = distinct(row.ahead_of(place.number));
        if !ahead.iter().any(|session| visit.bury_if_dead(*session)) {
            if own {
                for session in ahead {
                    visit.watch(session);
                }
            }
            return Some(place);
        }
    }
}

fn distinct(sessions: impl Iterator<Item = OwnerId>) -> Vec<OwnerId> {
    let mut distinct: Vec<_> = sessions.collect();
    distinct.sort_unstable();
    distinct.dedup();
    distinct
}

/// Removes every dead session that has a ticket of these keys.
pub(crate) fn bury_dead(visit: &mut Visit<'_>, covers: impl Fn(&Key) -> bool) {
    let rows = visit.state().rows.iter().filter(|(key, _)| covers(key));
    let sessions = distinct(rows.flat_map(|(_, row)| row.slots()).map(|seat| seat.session));
    for session in sessions {
        visit.bury_if_dead(session);
    }
}

pub(crate) fn renew(visit: &mut Visit<'_>, ticket: &Ticket) -> Option<Place> {
    let (changed, place) = visit.change(|state, hear| {
        let Some(row) = state.rows.get_mut(&ticket.key) else { return (false, None) };
        let last = row.last();
        let mut heard = false;
        let place = row.renew(ticket, &mut |note| {
            heard = true;
            hear(note);
        });
        (heard || row.last() > last, place)
    });
    if changed {
        visit.record(&Record::Changed { ticket: Cow::Borrowed(ticket) });
    }
    match place {
        Some(place) if place.state == TicketState::Waiting => look_ahead(visit, ticket),
        place => place,
    }
}

pub(crate) fn leave(visit: &mut Visit<'_>, ticket: &Ticket, how: LeaveMode) -> LeaveOutcome {
    let (changed, left) = visit.change(|state, hear| {
        let Some(row) = state.rows.get_mut(&ticket.key) else {
            return (false, LeaveOutcome::Absent);
        };
        let mut heard = false;
        let left = row.leave(ticket.id, how, &mut |note| {
            heard = true;
            hear(note);
        });
        (heard, left)
    });
    if changed {
        visit.record(&Record::Left { key: Cow::Borrowed(&ticket.key), id: ticket.id, how });
    }
    left
}
