//! The neighbours of a ticket in a short line, where one watch covers the whole line.
//!
//! A release that knows the next ticket puts that ticket's key again, unchanged, in the same
//! transaction. So the owner of that key gets one event: the holder ahead has left, and this was
//! its own key at that moment. That is a read of the own key, which etcd has made in the release.
//! The owner needs no other before it believes the lock.
//!
//! ```text
//!     revision 70:  delete ahead,  put own      one moment: served, and the own key was there
//!     revision 70:  delete ahead                the own key is read, as after every other hint
//! ```
//!
//! A release that touches the wrong key does no harm. It is more than a hint only for the ticket
//! right behind the one that left. That ticket knows this by itself, and no ticket comes in
//! between.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_core::TicketId;
use tenure_queue::{Node, Told};
use tokio::sync::oneshot;

use crate::keys::{Keys, revision};
use crate::watches::Watch;
use crate::wire::Event;
use crate::wire::event::EventType;

/// Maximum known tickets behind a ticket. The first may leave before it does.
const BEHIND_MAX: usize = 4;

/// The neighbours of this client's tickets.
#[derive(Default)]
pub(crate) struct Neighbours(Mutex<HashMap<TicketId, Neighbour>>);

struct Neighbour {
    behind: Behind,
    /// It goes on when its ticket is served, for the tickets behind.
    _watch: Watch,
}

/// The first tickets behind a ticket, as far as they are known, by number.
#[derive(Clone, Default)]
pub(crate) struct Behind(Arc<Mutex<BTreeMap<u64, Node>>>);

impl Neighbours {
    /// Keeps the watch of a ticket's line until the ticket is forgotten.
    pub(crate) fn keep(&self, id: TicketId, watch: Watch, behind: Behind) {
        let before = lock(&self.0).insert(id, Neighbour { behind, _watch: watch });
        // Its watch is cancelled outside of the lock.
        drop(before);
    }

    /// Returns the tickets behind a ticket, as far as they are known.
    pub(crate) fn behind(&self, id: TicketId) -> Behind {
        lock(&self.0).get(&id).map(|neighbour| neighbour.behind.clone()).unwrap_or_default()
    }

    pub(crate) fn forget(&self, id: TicketId) {
        let forgotten = lock(&self.0).remove(&id);
        // Its watch is cancelled outside of the lock.
        drop(forgotten);
    }

    /// Notes a listed part of a ticket's line.
    pub(crate) fn note(&self, id: TicketId, nodes: &[Node]) {
        let known = lock(&self.0).get(&id).map(|neighbour| neighbour.behind.clone());
        let own = nodes.iter().find(|node| node.name.id == id);
        if let (Some(behind), Some(own)) = (known, own) {
            for node in nodes {
                behind.note(own, node);
            }
        }
    }

    /// Returns the ticket right behind a ticket, if that is known.
    pub(crate) fn next_of(&self, node: &Node) -> Option<Node> {
        let behind = lock(&self.0).get(&node.name.id)?.behind.clone();
        let first = lock(&behind.0).first_key_value().map(|(_, node)| node.clone());
        first.filter(|next| next.created > node.created)
    }
}

impl Behind {
    fn note(&self, own: &Node, node: &Node) {
        let mut all = lock(&self.0);
        if node.created > own.created {
            all.insert(node.created, node.clone());
        }
        if all.len() > BEHIND_MAX {
            all.pop_last();
        }
    }

    fn gone(&self, keys: &Keys, key: &[u8]) {
        lock(&self.0).retain(|_, node| keys.seen(node) != key);
    }
}

/// The receiver of the events of a ticket's line.
pub(crate) struct Ear {
    keys: Keys,
    own: Node,
    ahead: Node,
    behind: Behind,
    tell: Option<oneshot::Sender<Told>>,
}

impl Ear {
    pub(crate) fn new(
        keys: Keys,
        own: Node,
        ahead: Node,
        behind: Behind,
        tell: oneshot::Sender<Told>,
    ) -> Self {
        Self { keys, own, ahead, behind, tell: Some(tell) }
    }

    /// Takes events of the line, in order. All of one revision come together. If that is too much
    /// for one message, the parts count only as a change.
    pub(crate) fn hear(&mut self, events: &[Event]) {
        for moment in events.chunk_by(|one, other| at(one) == at(other)) {
            self.note(moment);
            if let Some(told) = self.told(moment)
                && let Some(tell) = self.tell.take()
            {
                // The caller may have given up.
                let _ = tell.send(told);
            }
        }
    }

    fn note(&self, moment: &[Event]) {
        for event in moment {
            let Some(kept) = &event.kv else { continue };
            if is_deleted(event) {
                self.behind.gone(&self.keys, &kept.key);
            } else if let Some(node) = self.keys.node(kept) {
                self.behind.note(&self.own, &node);
            }
        }
    }

    /// Returns the report of a moment for the ticket, if there is one.
    fn told(&mut self, moment: &[Event]) -> Option<Told> {
        // Events that are known of either are skipped: members were seen to replay the past.
        let of = |node: &Node| {
            event_of(moment, &self.keys.seen(node)).filter(|event| at(event) > node.version)
        };
        let (own, ahead) = (of(&self.own), of(&self.ahead));
        if let Some(ahead) = ahead
            && !is_deleted(ahead)
        {
            match is_still(&self.keys, ahead, &self.ahead) {
                Some(node) => self.ahead = node,
                None => return Some(Told::Change),
            }
        }
        let has_left = ahead.is_some_and(is_deleted);
        let Some(own) = own else { return has_left.then_some(Told::Change) };
        let Some(node) = is_still(&self.keys, own, &self.own) else { return Some(Told::Change) };
        if has_left {
            return Some(Told::Served(node, at(own)));
        }
        self.own = node;
        None
    }
}

/// Returns whether only the version of a node has changed.
pub(crate) fn is_put_again(keys: &Keys, event: &Event, before: &Node) -> bool {
    is_still(keys, event, before).is_some_and(|node| node.ticket == before.ticket)
}

/// Returns a node as an event shows it, if it still has the same place in the line.
fn is_still(keys: &Keys, event: &Event, before: &Node) -> Option<Node> {
    let node = event.kv.as_ref().filter(|_| !is_deleted(event));
    let node = node.and_then(|kept| keys.node(kept))?;
    let is_same = node.name == before.name
        && (node.created, node.session) == (before.created, before.session)
        && (node.ticket.share, node.told) == (before.ticket.share, before.told);
    is_same.then_some(node)
}

fn event_of<'a>(moment: &'a [Event], key: &[u8]) -> Option<&'a Event> {
    moment.iter().find(|event| event.kv.as_ref().is_some_and(|kept| kept.key == key))
}

fn at(event: &Event) -> u64 {
    event.kv.as_ref().map_or(0, |kept| revision(kept.mod_revision))
}

fn is_deleted(event: &Event) -> bool {
    event.r#type == i32::from(EventType::Delete)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Share, Ticket};
    use tenure_queue::Name;

    use super::*;
    use crate::keys::{number, value};
    use crate::wire::KeyValue;

    /// A line of three: one ahead, the own ticket, one behind.
    struct Line {
        keys: Keys,
        nodes: [Node; 3],
    }

    impl Line {
        fn new() -> Self {
            let key = Key::new("k").unwrap();
            let nodes = [10, 20, 30].map(|created| {
                let ticket = Ticket::new(key.clone(), Share::new(5, 5).unwrap());
                let (name, session) = (Name::of(&ticket), created + 1);
                let (version, base, told, berth) = (created, 0, false, created);
                Node { name, session, created, version, ticket, base, told, berth }
            });
            Self { keys: Keys::of("p"), nodes }
        }

        fn ear(&self) -> (Ear, Behind, oneshot::Receiver<Told>) {
            let (tell, told) = oneshot::channel();
            let (behind, [ahead, own, _]) = (Behind::default(), self.nodes.clone());
            (Ear::new(self.keys.clone(), own, ahead, behind.clone(), tell), behind, told)
        }

        fn deleted(&self, at: usize, revision: u64) -> Event {
            let (key, mod_revision) = (self.keys.seen(&self.nodes[at]), number(revision));
            let kv = Some(KeyValue { key, mod_revision, ..KeyValue::default() });
            Event { r#type: EventType::Delete.into(), kv, prev_kv: None }
        }

        /// Puts the key with a change.
        fn put(&self, at: usize, revision: u64, change: impl FnOnce(&mut Node)) -> Event {
            let mut node = self.nodes[at].clone();
            change(&mut node);
            let told = if node.told { "told" } else { "-" };
            let (take, key) = (node.ticket.share.take(), node.ticket.key.as_str());
            let owner = &*node.ticket.owner;
            let ttl = node.ticket.ttl.as_millis();
            let (key_bytes, owner_bytes) = (key.len(), owner.len());
            let body =
                format!("tenure1 {take} {ttl} 0 {told} {key_bytes} {owner_bytes}\n{key}{owner}");
            let kv = KeyValue {
                key: self.keys.seen(&node),
                create_revision: number(node.created),
                mod_revision: number(revision),
                version: 1,
                value: value(node.name.id, body.as_bytes()),
                lease: node.session.cast_signed(),
            };
            Event { r#type: EventType::Put.into(), kv: Some(kv), prev_kv: None }
        }

        /// Returns the report of these events for the ticket.
        fn told(&self, events: &[Event]) -> Option<Told> {
            let (mut ear, _, mut told) = self.ear();
            ear.hear(events);
            told.try_recv().ok()
        }
    }

    #[test]
    fn a_release_that_touches_the_own_key_says_that_it_is_served() {
        let line = Line::new();
        for events in [
            [line.deleted(0, 40), line.put(1, 40, |_| {})],
            [line.put(1, 40, |_| {}), line.deleted(0, 40)],
        ] {
            let Some(Told::Served(node, 40)) = line.told(&events) else { panic!("it is served") };
            assert_eq!((node.created, node.version), (20, 40));
        }
    }

    #[test]
    fn every_other_end_of_the_one_ahead_is_only_a_hint() {
        let line = Line::new();
        let is_hint = |events: &[Event]| matches!(line.told(events), Some(Told::Change));
        assert!(is_hint(&[line.deleted(0, 40)]), "a waiter that left, or a lease that ended");
        assert!(is_hint(&[line.put(1, 39, |_| {}), line.deleted(0, 40)]), "two moments");
        assert!(is_hint(&[line.deleted(0, 40), line.put(1, 41, |_| {})]), "two moments");
        assert!(is_hint(&[line.deleted(0, 40), line.deleted(1, 40)]), "it is out itself");
        let other = |change: fn(&mut Node)| [line.deleted(0, 40), line.put(1, 40, change)];
        assert!(is_hint(&other(|node| node.session = 9)), "it lives with another lease");
        assert!(is_hint(&other(|node| node.created = 39)), "it is another ticket at that berth");
        assert!(is_hint(&other(|node| node.told = true)), "it was told to leave");
        let other_id = |node: &mut Node| node.name.id = TicketId::fresh();
        assert!(is_hint(&[line.deleted(0, 40), line.put(1, 40, other_id)]));
    }

    #[test]
    fn what_does_not_concern_a_ticket_is_no_news() {
        let line = Line::new();
        let events = [
            line.put(1, 40, |_| {}),
            line.put(0, 41, |_| {}),
            line.put(2, 42, |node| node.told = true),
            line.deleted(2, 43),
        ];
        assert!(line.told(&events).is_none());
        assert!(matches!(
            line.told(&[line.put(0, 41, |node| node.told = true)]),
            Some(Told::Change)
        ));
        assert!(matches!(
            line.told(&[line.put(1, 41, |node| node.told = true)]),
            Some(Told::Change)
        ));
        let shrunk = |node: &mut Node| node.ticket.share = Share::new(1, 5).unwrap();
        assert!(matches!(line.told(&[line.put(0, 41, shrunk)]), Some(Told::Change)));
    }

    #[test]
    fn what_is_known_of_a_node_is_no_news_and_what_is_not_known_of_another_is() {
        let mut line = Line::new();
        // Its owner has changed its note since the one ahead was seen.
        line.nodes[1].version = 100;
        assert!(matches!(line.told(&[line.deleted(0, 95)]), Some(Told::Change)));
        let past =
            [line.put(1, 99, |node| node.told = true), line.put(0, 10, |node| node.told = true)];
        assert!(line.told(&past).is_none(), "members were seen to replay the past");
    }

    #[test]
    fn a_key_that_is_put_again_is_told_from_one_that_says_something_new() {
        let line = Line::new();
        let is_again = |event: &Event| is_put_again(&line.keys, event, &line.nodes[0]);
        assert!(is_again(&line.put(0, 40, |_| {})));
        assert!(!is_again(&line.put(0, 40, |node| node.told = true)));
        assert!(!is_again(&line.put(0, 40, |node| node.ticket.ttl *= 2)));
        assert!(!is_again(&line.deleted(0, 40)));
    }

    #[test]
    fn the_first_ones_behind_a_ticket_are_known_until_they_leave() {
        let line = Line::new();
        let (mut ear, behind, _told) = line.ear();
        let first = || lock(&behind.0).first_key_value().map(|(number, _)| *number);
        ear.hear(&[line.put(0, 31, |_| {}), line.put(1, 32, |_| {})]);
        assert_eq!(first(), None, "nobody is behind");
        for number in 30..40 {
            let at = |node: &mut Node| (node.created, node.berth) = (number, number);
            ear.hear(&[line.put(2, number, at)]);
        }
        assert_eq!((first(), lock(&behind.0).len()), (Some(30), BEHIND_MAX));
        ear.hear(&[line.deleted(2, 41)]);
        assert_eq!(first(), Some(31));
    }
}
