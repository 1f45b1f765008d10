//! Count of nodes of each session of this client. A session that ends names all of them, and
//! servers fail if they are too many.

use std::collections::HashMap;

use tenure_core::TicketId;
use tenure_core::sync::Mutex;
use tenure_queue::SessionId;

/// The nodes of all tickets of this client that are in their lines, or may be.
#[derive(Default)]
pub(crate) struct Nodes(Mutex<All>);

#[derive(Default)]
struct All {
    by_id: HashMap<TicketId, Own>,
    counts: HashMap<SessionId, usize>,
}

/// The nodes of one ticket: its own, and the one that lowers its take.
#[derive(Clone, Copy)]
struct Own {
    session: SessionId,
    count: usize,
}

impl Nodes {
    /// Counts a ticket's node that is about to be made. Returns `false` if its session has `most`
    /// already, at any count of concurrent callers.
    #[must_use]
    pub(crate) fn make(&self, id: TicketId, session: SessionId, most: usize) -> bool {
        let mut all = self.0.lock();
        match all.by_id.get(&id) {
            Some(own) if own.session == session => return true,
            Some(_) => all.take_off(id),
            None => {}
        }
        all.add(session, most) && all.by_id.insert(id, Own { session, count: 1 }).is_none()
    }

    /// Counts the second node of a ticket that is about to take less, in the same way. Ignores
    /// tickets of other clients.
    #[must_use]
    pub(crate) fn make_less(&self, id: TicketId, most: usize) -> bool {
        let mut all = self.0.lock();
        let Some(own) = all.by_id.get(&id).copied().filter(|own| own.count == 1) else {
            return true;
        };
        let has_room = all.add(own.session, most);
        if has_room {
            all.by_id.insert(id, Own { count: 2, ..own });
        }
        has_room
    }

    /// Removes a ticket that is out.
    pub(crate) fn forget(&self, id: TicketId) {
        self.0.lock().take_off(id);
    }

    /// Removes a session that has ended, and its nodes with it.
    pub(crate) fn end(&self, session: SessionId) {
        let mut all = self.0.lock();
        all.by_id.retain(|_, own| own.session != session);
        all.counts.remove(&session);
    }
}

impl All {
    fn add(&mut self, session: SessionId, most: usize) -> bool {
        let count = self.counts.entry(session).or_default();
        let has_room = *count < most;
        *count += usize::from(has_room);
        has_room
    }

    fn take_off(&mut self, id: TicketId) {
        if let Some(Own { session, count }) = self.by_id.remove(&id)
            && let Some(all) = self.counts.get_mut(&session)
        {
            *all -= count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_nodes_and_again_once_one_is_out() {
        let (nodes, [a, b, c]) = (Nodes::default(), [(); 3].map(|()| TicketId::fresh()));
        assert!(nodes.make(a, 1, 2) && nodes.make(b, 1, 2));
        assert!(nodes.make(a, 1, 2), "it is there already");
        assert!(!nodes.make(c, 1, 2) && nodes.make(c, 2, 2), "each session has its own");
        nodes.forget(a);
        nodes.forget(a);
        assert!(nodes.make(c, 1, 2), "it is of another session now");
        assert!(!nodes.make(a, 1, 2) && nodes.make(a, 2, 1));
    }

    #[test]
    fn a_ticket_that_takes_less_has_two_nodes() {
        let (nodes, [a, b]) = (Nodes::default(), [(); 2].map(|()| TicketId::fresh()));
        assert!(nodes.make_less(a, 0), "another client's");
        assert!(nodes.make(a, 1, 2) && nodes.make_less(a, 2) && nodes.make_less(a, 2));
        assert!(!nodes.make(b, 1, 2));
        nodes.forget(a);
        assert!(nodes.make(b, 1, 1) && !nodes.make_less(b, 1));
    }

    #[test]
    fn nothing_is_known_of_a_session_that_has_ended() {
        let (nodes, id) = (Nodes::default(), TicketId::fresh());
        assert!(nodes.make(id, 1, 1));
        nodes.end(1);
        nodes.forget(id);
        assert!(nodes.0.lock().by_id.is_empty() && nodes.0.lock().counts.is_empty());
    }
}
