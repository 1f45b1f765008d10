//! The place of a ticket in its line, and the nodes that keep it out. Pure: nodes are arguments.

use tenure_core::{Share, TicketState, served};

use crate::contract::Front;
use crate::node::Node;

/// Behind more tickets than this, a renewal does not count the tickets ahead again.
const NEAR: usize = 32;
/// With more nodes that keep a ticket out, a read of the line costs less than one of each.
const FEW: usize = 4;

/// The place of a ticket in its line at one moment.
#[derive(Clone, Debug)]
pub struct Position {
    /// The moment.
    pub at: u64,
    /// Count of the tickets ahead, or a lower bound of it. One is exact.
    pub count: usize,
    /// The sum of their takes, or a lower bound of it.
    pub ahead: u64,
    /// Whether it is served.
    pub state: TicketState,
    /// A waiting ticket waits for as long as these nodes are unchanged.
    pub blockers: Vec<Node>,
}

impl Position {
    /// Returns the position of a ticket with this share behind `count` tickets, which take `ahead`.
    /// `nearest` are nodes of them, the nearest first, and enough of them to keep the ticket out if
    /// it is not served.
    pub fn new(
        at: u64,
        (count, ahead): (usize, u64),
        nearest: impl IntoIterator<Item = Node>,
        share: Share,
    ) -> Self {
        let waits = !served(ahead, share);
        let state = if waits { TicketState::Waiting } else { TicketState::Holding };
        let nearest = nearest.into_iter().filter(|_| waits);
        Self { at, count, ahead, state, blockers: blockers(nearest, Node::take, share) }
    }

    /// Returns the position at the front of a line.
    pub fn first(at: u64) -> Self {
        Self { at, count: 0, ahead: 0, state: TicketState::Holding, blockers: Vec::new() }
    }

    /// Returns whether a renewal reads only the nodes that keep the ticket out.
    pub(crate) fn is_far(&self) -> bool {
        self.count > NEAR && self.blockers.len() <= FEW
    }

    /// Returns whether the ticket is served when the one node that keeps it out is removed.
    pub(crate) fn is_next(&self) -> bool {
        self.blockers.len() == 1 && self.count == 1
    }
}

impl Front {
    /// Returns the position of a node, if all nodes ahead of it are here.
    pub fn position_of(&self, node: &Node) -> Position {
        let ahead = self.nodes.partition_point(|other| other.created < node.created);
        let ahead = &self.nodes[..ahead];
        let taken = ahead.iter().map(Node::take).sum();
        let nearest = ahead.iter().rev().cloned();
        Position::new(self.at, (ahead.len(), taken), nearest, node.ticket.share)
    }

    /// Returns the nodes that are served, as far as the line was read.
    pub(crate) fn served(&self) -> impl Iterator<Item = &Node> {
        let mut taken = 0;
        self.nodes.iter().take_while(move |node| {
            let fits = served(taken, node.ticket.share);
            taken += node.take();
            fits
        })
    }
}

/// Returns a few of the nodes ahead that keep a share out for as long as all of them stay. These
/// are the ones that take most, the nearest first. For a mutex that is the nearest alone, so a
/// release wakes one waiter.
pub fn blockers<T>(
    nearest: impl IntoIterator<Item = T>,
    take: impl Fn(&T) -> u64,
    share: Share,
) -> Vec<T> {
    let mut all: Vec<T> = nearest.into_iter().collect();
    // The sort is stable: among equals, the nearest stays first.
    all.sort_by_key(|one| std::cmp::Reverse(take(one)));
    let mut taken = 0;
    let mut more = |one: &T| {
        let waits = !served(taken, share);
        taken += take(one);
        !waits
    };
    let enough = all.iter().take_while(|one| more(one)).count();
    all.truncate(enough);
    all
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Ticket};

    use super::*;
    use crate::node::TicketName;

    fn line(shares: &[(u32, u32)]) -> Front {
        let node = |(at, (take, of)): (u64, &(u32, u32))| {
            let share = Share::new(*take, *of).unwrap();
            let ticket = Ticket::new(Key::new("k").unwrap(), share);
            let body = Node::body(&ticket, 0, false);
            Node::read(TicketName::of(&ticket), 1, at, at, &body).unwrap()
        };
        let nodes: Vec<Node> = (1..).zip(shares).map(node).collect();
        Front { total: nodes.len(), nodes, ..Front::default() }
    }

    fn blocked_by(front: &Front, created: u64) -> (TicketState, u64, Vec<u64>) {
        let position = front.position_of(&front.nodes[usize::try_from(created).unwrap() - 1]);
        let blockers = position.blockers.iter().map(|node| node.created).collect();
        (position.state, position.ahead, blockers)
    }

    #[test]
    fn a_mutex_is_kept_out_by_its_predecessor_alone() {
        let front = line(&[(9, 9), (9, 9), (9, 9)]);
        assert_eq!(blocked_by(&front, 1), (TicketState::Holding, 0, vec![]));
        assert_eq!(blocked_by(&front, 2), (TicketState::Waiting, 9, vec![1]));
        assert_eq!(blocked_by(&front, 3), (TicketState::Waiting, 18, vec![2]));
    }

    #[test]
    fn a_reader_is_kept_out_by_the_nearest_writer_alone() {
        let front = line(&[(9, 9), (9, 9), (1, 9), (1, 9)]);
        assert_eq!(blocked_by(&front, 4), (TicketState::Waiting, 19, vec![2]));
    }

    #[test]
    fn a_permit_is_kept_out_by_as_many_as_there_are_and_each_release_wakes_one() {
        let front = line(&[(1, 2), (1, 2), (1, 2), (1, 2)]);
        assert_eq!(blocked_by(&front, 2), (TicketState::Holding, 1, vec![]));
        assert_eq!(blocked_by(&front, 3), (TicketState::Waiting, 2, vec![2, 1]));
        assert_eq!(blocked_by(&front, 4), (TicketState::Waiting, 3, vec![3, 2]));
    }

    #[test]
    fn next_is_a_ticket_with_one_ahead() {
        let front = line(&[(9, 9), (9, 9), (9, 9)]);
        let is_next = |at: usize| front.position_of(&front.nodes[at]).is_next();
        assert_eq!([0, 1, 2].map(is_next), [false, true, false]);
    }

    #[test]
    fn a_ticket_far_back_is_kept_out_by_the_nodes_that_were_read() {
        let front = line(&[(9, 9), (9, 9)]);
        let nearest = front.nodes.iter().rev().cloned();
        let position = Position::new(7, (200, 1000), nearest, Share::new(9, 9).unwrap());
        assert_eq!((position.at, position.state), (7, TicketState::Waiting));
        assert!(position.is_far() && !position.is_next());
        assert_eq!(position.blockers, front.nodes[1..]);
    }
}
