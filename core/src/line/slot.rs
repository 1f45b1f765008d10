//! A seat: a ticket in a line, and what the line knows of it.

use crate::event::EventKind;
use crate::{Ticket, TicketState};

/// One ticket of a [`Line`](crate::Line), as an engine that keeps records stores it and
/// [restores](crate::Line::restore) it. `S` is what the engine wants to know of its owner, such as a session.
///
/// ```
/// use tenure::engine::line::Slot;
/// use tenure::{Key, Share, TicketState, Ticket, engine::Line};
///
/// let mut line = Line::default();
/// for (number, session) in [(41, "alice"), (42, "bob")] {
///     let ticket = Ticket::new(Key::new("a")?, Share::WHOLE);
///     assert!(line.restore(Slot { ticket, session, number, ends: None, leaving: false }, &mut |_| {}));
/// }
/// let whose: Vec<_> = line.seats().map(|seat| (seat.session, seat.number)).collect();
/// assert_eq!(whose, [("alice", 41), ("bob", 42)]);
/// assert_eq!(line.list(0)[1].1.state, TicketState::Waiting);
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot<S = ()> {
    /// As it joined, with its latest note and share.
    pub ticket: Ticket,
    /// Whose it is.
    pub session: S,
    /// Its number.
    pub number: u64,
    /// When its life ends by the store's clock, in microseconds. `None` where the engine takes out
    /// the tickets of the dead.
    pub ends: Option<u64>,
    /// It was told to leave.
    pub leaving: bool,
}

/// Later than every end.
pub(super) const NEVER: u64 = u64::MAX;

impl<S> Slot<S> {
    pub(super) fn take(&self) -> u64 {
        self.ticket.share.take().into()
    }

    pub(super) fn end(&self) -> u64 {
        self.ends.unwrap_or(NEVER)
    }
}

/// What happened to a ticket of a line.
///
/// ```
/// use tenure::event::EventKind;
/// use tenure::engine::line::LineEvent;
/// use tenure::{Key, Share, TicketState, Ticket, engine::{LeaveMode, Line, Expiry, WaitMode}};
///
/// let (mut line, ticket) = (Line::default(), Ticket::new(Key::new("a")?, Share::WHOLE));
/// line.join(&ticket, (), WaitMode::Wait, Expiry::ByOwner, 0, &mut |_| {})?;
/// let mut left = Vec::new();
/// line.leave(ticket.id, LeaveMode::Now, 0, &mut |LineEvent { what, seat, standing }| {
///     left.push((what, seat.number, standing));
/// });
/// assert_eq!(left, [(EventKind::Left, 1, TicketState::Holding)]);
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Debug)]
pub struct LineEvent<'a, S = ()> {
    /// What.
    pub kind: EventKind,
    /// To which ticket.
    pub slot: &'a Slot<S>,
    /// Where it stood when that happened; where it stands now, if it was served just now.
    pub state: TicketState,
}

/// Told of everything that happens to the line, in order.
///
/// ```
/// use tenure::event::EventKind;
/// use tenure::engine::line::LineObserver;
/// use tenure::{Key, Share, Ticket, engine::{Line, Expiry, WaitMode}};
///
/// fn first_to_be_served(tell: &mut LineObserver<'_>) -> tenure::Result<()> {
///     let ticket = Ticket::new(Key::new("a")?, Share::WHOLE);
///     Line::default().join(&ticket, (), WaitMode::Wait, Expiry::ByTtl, 0, tell).map(drop)
/// }
/// let mut whats = Vec::new();
/// first_to_be_served(&mut |told| whats.push(told.what))?;
/// assert_eq!(whats, [EventKind::Joined, EventKind::Served]);
/// # Ok::<(), tenure::Error>(())
/// ```
pub type LineObserver<'a, S = ()> = dyn FnMut(LineEvent<'_, S>) + 'a;
