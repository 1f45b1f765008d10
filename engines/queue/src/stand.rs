//! Where a ticket stands in its line, and which nodes keep it out. Pure: nodes are arguments.

use tenure_core::{Share, TicketState, served};

use crate::contract::{Ahead, Distance, Front};
use crate::node::Node;

/// Behind more tickets than this, a renewal does not count the tickets ahead again.
const NEAR: usize = 32;

/// Where a ticket stands.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    pub(crate) standing: TicketState,
    /// The sum of the takes ahead; a lower bound if the line is longer than what was read.
    pub(crate) ahead: u64,
    /// It waits as long as these are unchanged.
    pub(crate) blockers: Vec<Node>,
    /// The number of the one right ahead; 0 if that is not known. No ticket comes in between.
    pub(crate) behind: u64,
    /// Not all tickets ahead were read, because the line is long.
    pub(crate) deep: bool,
    /// More than [`NEAR`] are ahead, so that a renewal reads only those that keep it out.
    pub(crate) far: bool,
    /// Count of the tickets ahead; a lower bound if the line is longer than what was read.
    pub(crate) count: usize,
}

/// Maximum tickets ahead with which a ticket watches the whole line. In a longer line each join
/// would wake all of them.
const FEW: usize = 3;

impl Stand {
    /// Returns its distance from the front of its line.
    pub(crate) fn distance(&self) -> Distance {
        match &self.blockers[..] {
            [_] if self.count == 1 && !self.deep => Distance::Next,
            [blocker] if self.count <= FEW && blocker.created == self.behind => Distance::Near,
            _ => Distance::Far,
        }
    }

    /// The front of a line, without a ticket ahead.
    pub(crate) fn first() -> Self {
        let (standing, blockers) = (TicketState::Holding, Vec::new());
        Self { standing, ahead: 0, blockers, behind: 0, deep: false, far: false, count: 0 }
    }
}

impl Front {
    /// Returns where the ticket with this number stands; `None` if more of the line must be read.
    pub(crate) fn stand(&self, created: u64, share: Share) -> Option<Stand> {
        let ahead: Vec<&Node> = self.nodes.iter().filter(|node| node.created < created).collect();
        let all_seen = self.is_whole() || ahead.len() < self.nodes.len();
        let seen = Ahead {
            count: ahead.len(),
            taken: ahead.iter().map(|node| node.take()).sum(),
            behind: ahead.last().filter(|_| all_seen).map_or(0, |node| node.created),
        };
        let Ahead { count, taken, behind } = self.ahead.unwrap_or(seen);
        let whole = self.ahead.is_some() || all_seen;
        let waits = !served(taken, share);
        if !whole && !waits {
            return None;
        }
        let far = count > NEAR;
        let standing = if waits { TicketState::Waiting } else { TicketState::Holding };
        let nearest = ahead.into_iter().rev().filter(|_| waits);
        let blockers = blockers(nearest, |node| node.take(), share);
        let blockers = blockers.into_iter().cloned().collect();
        Some(Stand { standing, ahead: taken, blockers, behind, deep: !whole, far, count })
    }

    /// Returns the sum of the takes of the line; a lower bound if the line is longer than what was
    /// read.
    pub(crate) fn taken(&self) -> u64 {
        let seen = || self.nodes.iter().map(Node::take).sum();
        self.ahead.map_or_else(seen, |ahead| ahead.taken)
    }

    fn is_whole(&self) -> bool {
        self.nodes.len() >= self.total
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
    use crate::node::Name;

    fn line(shares: &[(u32, u32)]) -> Front {
        let node = |(at, (take, of)): (u64, &(u32, u32))| {
            let share = Share::new(*take, *of).unwrap();
            let ticket = Ticket::new(Key::new("k").unwrap(), share);
            let (name, told) = (Name::of(&ticket), false);
            Node { name, session: 1, created: at, version: at, ticket, base: 0, told, berth: 0 }
        };
        let nodes: Vec<Node> = (1..).zip(shares).map(node).collect();
        Front { total: nodes.len(), nodes, ..Front::default() }
    }

    fn blocked_by(front: &Front, created: u64) -> (TicketState, u64, Vec<u64>) {
        let me = &front.nodes[usize::try_from(created).unwrap() - 1];
        let stand = front.stand(created, me.ticket.share).expect("the whole line is here");
        let blockers = stand.blockers.iter().map(|node| node.created).collect();
        (stand.standing, stand.ahead, blockers)
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
    fn the_ticket_right_ahead_is_known_where_the_line_was_read() {
        let mut front = line(&[(9, 9), (1, 9), (9, 9)]);
        let behind = |front: &Front, at: usize| {
            let node = &front.nodes[at];
            front.stand(node.created, node.ticket.share).expect("it waits").behind
        };
        assert_eq!([behind(&front, 0), behind(&front, 1), behind(&front, 2)], [0, 1, 2]);
        front.ahead = Some(Ahead { count: 2, taken: 10, behind: 0 });
        assert_eq!(behind(&front, 2), 0, "not all of them were read");
        front.ahead = Some(Ahead { count: 200, taken: 1000, behind: 2 });
        assert_eq!(behind(&front, 2), 2, "the last ones were read");
    }

    #[test]
    fn near_is_a_ticket_that_the_one_right_ahead_keeps_out() {
        use Distance::{Far, Near, Next};
        let distances = |shares: &[(u32, u32)]| -> Vec<Distance> {
            let front = line(shares);
            let stand = |node: &Node| front.stand(node.created, node.ticket.share).unwrap();
            front.nodes.iter().map(|node| stand(node).distance()).collect()
        };
        assert_eq!(distances(&[(9, 9); 6]), [Far, Next, Near, Near, Far, Far]);
        // When the first one leaves, the third still waits for the second.
        assert_eq!(distances(&[(3, 3), (2, 3), (2, 3)]), [Far, Next, Far]);
        assert_eq!(distances(&[(9, 9), (1, 9), (1, 9)]), [Far, Next, Far]);
    }

    #[test]
    fn next_is_a_ticket_with_one_ahead_though_more_may_be_there() {
        let mut front = line(&[(9, 9), (9, 9)]);
        let share = Share::new(9, 9).unwrap();
        let distance = |front: &Front, created| front.stand(created, share).unwrap().distance();
        front.total = 5;
        assert_eq!(distance(&front, 2), Distance::Next, "the tickets that are left out came later");
        front.nodes.pop();
        assert_eq!(distance(&front, 5), Distance::Far, "others may be between them");
        front.ahead = Some(Ahead { count: 1, taken: 9, behind: 0 });
        assert_eq!(distance(&front, 5), Distance::Next, "the store knows of no other ticket");
    }

    #[test]
    fn a_part_of_the_line_decides_only_what_it_can() {
        let mut front = line(&[(1, 3), (1, 3)]);
        front.total = 9;
        let (one, two) = (Share::new(1, 3).unwrap(), Share::new(2, 3).unwrap());
        assert!(front.stand(5, one).is_none(), "a third may be ahead of it");
        assert!(front.stand(5, two).is_some_and(|stand| stand.deep && stand.ahead == 2));
    }
}
