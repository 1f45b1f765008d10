//! A slot: a ticket in a line, with its number and its expiry.

use crate::event::EventKind;
use crate::{Ticket, TicketState};

/// One ticket of a [`Line`](crate::Line). An engine that stores records stores and
/// [restores](crate::Line::restore) slots. `S` is the engine's own data about the owner, such as a
/// session.
///
/// ```
/// use tenure::engine::line::Slot;
/// use tenure::engine::Line;
/// use tenure::inspect::{Share, Ticket, TicketState};
/// use tenure::Key;
///
/// let mut line = Line::default();
/// for (number, session) in [(41, "alice"), (42, "bob")] {
///     let ticket = Ticket::new(Key::new("a")?, Share::WHOLE);
///     let slot = Slot { ticket, session, number, ends: None, leaving: false };
///     assert!(line.restore(slot, &mut |_| {}));
/// }
/// let slots: Vec<_> = line.slots().map(|slot| (slot.session, slot.number)).collect();
/// assert_eq!(slots, [("alice", 41), ("bob", 42)]);
/// assert_eq!(line.list(0)[1].1.state, TicketState::Waiting);
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot<S = ()> {
    /// The ticket as it joined, with its latest note and share.
    pub ticket: Ticket,
    /// The engine's data about the owner.
    pub session: S,
    /// The ticket's number in its line.
    pub number: u64,
    /// When the ticket expires by the store's clock, in microseconds since 1970. `None`: the engine
    /// removes tickets of dead owners itself.
    pub ends: Option<u64>,
    /// The holder was asked to release the lock.
    pub leaving: bool,
}

/// The expiry of a ticket that does not expire.
pub(super) const NEVER: u64 = u64::MAX;

impl<S> Slot<S> {
    pub(super) fn take(&self) -> u64 {
        self.ticket.share.take().into()
    }

    pub(super) fn end(&self) -> u64 {
        self.ends.unwrap_or(NEVER)
    }
}

/// A change of one ticket in a line.
///
/// ```
/// use tenure::inspect::EventKind;
/// use tenure::engine::line::LineEvent;
/// use tenure::engine::{Expiry, LeaveMode, Line, WaitMode};
/// use tenure::inspect::{Share, Ticket, TicketState};
/// use tenure::Key;
///
/// let (mut line, ticket) = (Line::default(), Ticket::new(Key::new("a")?, Share::WHOLE));
/// line.join(&ticket, (), WaitMode::Wait, Expiry::ByOwner, 0, &mut |_| {})?;
/// let mut left = Vec::new();
/// line.leave(ticket.id, LeaveMode::Now, 0, &mut |LineEvent { kind, slot, state }| {
///     left.push((kind, slot.number, state));
/// });
/// assert_eq!(left, [(EventKind::Left, 1, TicketState::Holding)]);
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Debug)]
pub struct LineEvent<'a, S = ()> {
    /// The kind of change.
    pub kind: EventKind,
    /// The ticket.
    pub slot: &'a Slot<S>,
    /// The ticket's state before the change; after it, if the ticket was served.
    pub state: TicketState,
}

/// A function that is called with each change of a line, in order.
///
/// ```
/// use tenure::inspect::EventKind;
/// use tenure::engine::line::LineObserver;
/// use tenure::engine::{Expiry, Line, WaitMode};
/// use tenure::inspect::{Share, Ticket};
/// use tenure::Key;
///
/// fn join_an_empty_line(observer: &mut LineObserver<'_>) -> tenure::Result<()> {
///     let ticket = Ticket::new(Key::new("a")?, Share::WHOLE);
///     Line::default().join(&ticket, (), WaitMode::Wait, Expiry::ByTtl, 0, observer).map(drop)
/// }
/// let mut kinds = Vec::new();
/// join_an_empty_line(&mut |event| kinds.push(event.kind))?;
/// assert_eq!(kinds, [EventKind::Joined, EventKind::Served]);
/// # Ok::<(), tenure::Error>(())
/// ```
pub type LineObserver<'a, S = ()> = dyn FnMut(LineEvent<'_, S>) + 'a;
