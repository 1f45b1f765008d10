//! The tickets of this client: the session of each, and its last read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::sync::Mutex;
use tenure_core::{ExpiringMap, TicketId, Time};

use crate::contract::SessionId;
use crate::node::{LineId, Node, TicketName};
use crate::own_ticket::{Going, OwnTicket, Sighting};
use crate::position::Position;
use crate::session::Session;

/// All tickets of this client.
pub(crate) struct OwnTickets {
    tickets: Mutex<TicketTable>,
    /// Callback for a forgotten ticket.
    forgets: Box<dyn Fn(TicketId) + Send + Sync>,
}

#[derive(Default)]
struct TicketTable {
    by_id: HashMap<TicketId, OwnTicket>,
    /// Joins that began and have no answer yet, and whether they were requested more than once.
    asked: ExpiringMap<bool>,
    /// Tickets that joined more than once, and are out for good. They are kept as long as a caller
    /// may look for the outcome of the first join.
    ended: ExpiringMap<()>,
    /// Count of tickets in each line.
    lines: HashMap<LineId, usize>,
}

impl TicketTable {
    /// Removes a ticket. Returns whether it was there.
    fn take_off(&mut self, id: TicketId) -> bool {
        let Some(mine) = self.by_id.remove(&id) else { return false };
        let line = mine.name.line;
        if let Some(count) = self.lines.get_mut(&line) {
            *count -= 1;
            if *count == 0 {
                self.lines.remove(&line);
            }
        }
        true
    }

    fn put(&mut self, mine: OwnTicket) {
        let line = mine.name.line.clone();
        if self.by_id.insert(mine.name.id, mine).is_none() {
            *self.lines.entry(line).or_default() += 1;
        }
    }

    /// Returns whether a ticket is given up, or its time to leave is over. A caller that waits for
    /// a join gives no sign of life meanwhile.
    fn is_overdue(&self, mine: &OwnTicket, now: Time) -> bool {
        mine.is_overdue(now) && self.asked.get(mine.name.id, now).is_none()
    }
}

impl OwnTickets {
    pub(crate) fn new(forgets: impl Fn(TicketId) + Send + Sync + 'static) -> Self {
        Self { tickets: Mutex::default(), forgets: Box::new(forgets) }
    }

    /// Notes that a join has begun. The ticket lives until `until` without a sign of life. Returns
    /// `false` if too many joins are in flight.
    #[must_use]
    pub(crate) fn ask(&self, id: TicketId, now: Time, until: Time) -> bool {
        let mut all = self.tickets.lock();
        all.ended.forget(id);
        let is_again = all.asked.forget(id).is_some();
        all.asked.note(id, is_again, now, until)
    }

    /// Notes that a ticket in its line joins again.
    pub(crate) fn ask_again(&self, id: TicketId) {
        if let Some(mine) = self.tickets.lock().by_id.get_mut(&id) {
            mine.is_asked_again = true;
        }
    }

    /// Ends a join, because the owner gives the ticket up. Returns whether there was one.
    pub(crate) fn give_up(&self, id: TicketId) -> bool {
        self.tickets.lock().asked.forget(id).is_some()
    }

    /// Adds a ticket that is about to be put into its line. Returns `false` if its owner has given
    /// it up: then no task would remove it.
    #[must_use]
    pub(crate) fn begin(&self, name: &TicketName, session: &Arc<Session>, now: Time) -> bool {
        let mut all = self.tickets.lock();
        let Some(is_asked_again) = all.asked.get(name.id, now).copied() else { return false };
        if all.by_id.get(&name.id).is_some_and(OwnTicket::is_condemned) {
            // The removal would find it in its line.
            return false;
        }
        all.put(OwnTicket { is_asked_again, ..OwnTicket::new(name.clone(), session.clone(), now) });
        true
    }

    /// Adds an orphan that was asked to leave. It is removed when the ttl is over, like any other
    /// ticket that was asked.
    pub(crate) fn adopt(&self, node: &Node, session: &Arc<Session>, now: Time) {
        let seen = Sighting { node: node.clone(), position: Position::first(node.version) };
        let (seen, told) = (Some(seen), Some(now.plus(session.granted)));
        let mine =
            OwnTicket { seen, told, ..OwnTicket::new(node.name.clone(), session.clone(), now) };
        let mut all = self.tickets.lock();
        if !all.by_id.contains_key(&node.name.id) {
            all.put(mine);
        }
    }

    /// Returns whether this client has this ticket in its line, or is about to put it there.
    pub(crate) fn knows(&self, id: TicketId, now: Time) -> bool {
        let all = self.tickets.lock();
        all.by_id.contains_key(&id) || all.asked.get(id, now).is_some()
    }

    /// Notes a sign of life of the owner. Returns whether the ticket is known, and is not being
    /// removed.
    pub(crate) fn sign(&self, id: TicketId, now: Time) -> bool {
        let mut all = self.tickets.lock();
        let mine = all.by_id.get_mut(&id).filter(|mine| !mine.is_condemned());
        // A later sign of life may have been noted before this one.
        mine.map(|mine| mine.signed = mine.signed.max(now)).is_some()
    }

    /// Condemns a ticket that is given up, or whose time to leave is over: it is removed, and later
    /// signs of life do not change that. Returns `None` if the ticket is neither.
    pub(crate) fn condemn(&self, id: TicketId, now: Time) -> Option<OwnTicket> {
        let mut all = self.tickets.lock();
        all.by_id.get(&id).filter(|mine| all.is_overdue(mine, now))?;
        let mine = all.by_id.get_mut(&id)?;
        mine.going = Going::Condemned;
        Some(mine.clone())
    }

    /// Condemns a ticket that is not served and whose owner would not wait. Later signs of life do
    /// not change that.
    pub(crate) fn turn_away(&self, id: TicketId) {
        self.tickets.lock().by_id.entry(id).and_modify(|mine| mine.going = Going::Condemned);
    }

    /// Returns whether a ticket is condemned.
    pub(crate) fn is_condemned(&self, id: TicketId) -> bool {
        self.tickets.lock().by_id.get(&id).is_some_and(OwnTicket::is_condemned)
    }

    /// Returns whether a ticket joined more than once.
    pub(crate) fn was_asked_again(&self, id: TicketId, now: Time) -> bool {
        let all = self.tickets.lock();
        all.asked.get(id, now) == Some(&true)
            || all.by_id.get(&id).is_some_and(|mine| mine.is_asked_again)
    }

    /// Returns whether a join of a ticket may have no answer yet.
    pub(crate) fn may_come_in(&self, id: TicketId, now: Time) -> bool {
        let all = self.tickets.lock();
        let is_unanswered = |mine: &OwnTicket| mine.seen.is_none() || mine.is_asked_again;
        all.asked.get(id, now).is_some() || all.by_id.get(&id).is_some_and(is_unanswered)
    }

    /// Returns what is known of a ticket.
    pub(crate) fn get(&self, id: TicketId) -> Option<OwnTicket> {
        self.tickets.lock().by_id.get(&id).cloned()
    }

    /// Notes what a read of a ticket returned.
    pub(crate) fn see(&self, seen: &Sighting, holds: bool) {
        let mut all = self.tickets.lock();
        let other_life = |mine: &OwnTicket| mine.session.id != seen.node.session;
        if all.by_id.get(&seen.node.name.id).is_some_and(other_life) {
            return;
        }
        all.asked.forget(seen.node.name.id);
        let Some(mine) = all.by_id.get_mut(&seen.node.name.id) else { return };
        // An answer may be older than one that came before it. A served ticket stays served until
        // it leaves, or is asked to.
        mine.holds = (mine.holds || holds) && !seen.node.told;
        if seen.node.told && mine.told.is_none() {
            mine.told = Some(mine.session.end());
        }
        if mine.seen.as_ref().is_none_or(|before| before.position.at <= seen.position.at) {
            mine.seen = Some(seen.clone());
        }
    }

    /// Notes that a node is served. Returns whether that is news.
    pub(crate) fn serve(&self, node: &Node) -> bool {
        let mut all = self.tickets.lock();
        let Some(mine) = all.by_id.get_mut(&node.name.id) else { return false };
        let known = mine.seen.as_ref().is_some_and(|seen| seen.node.created == node.created);
        let new = known && !mine.holds;
        mine.holds |= new && !node.told;
        new
    }

    /// Notes that a ticket is out, and that nothing of it comes in any more. If it joined more than
    /// once, that is kept for its ttl: a caller may look for the outcome of the first join until
    /// then, and a line may be long.
    pub(crate) fn end(&self, id: TicketId, now: Time, ttl: Duration) {
        if self.was_asked_again(id, now) {
            // If the note does not fit, the caller looks for the ticket.
            self.tickets.lock().ended.note(id, (), now, now.plus(ttl));
        }
        self.forget(id);
    }

    /// Returns whether nothing of this ticket is in a line, or will be.
    pub(crate) fn has_ended(&self, id: TicketId, now: Time) -> bool {
        self.tickets.lock().ended.get(id, now).is_some()
    }

    /// Removes a ticket that is out.
    pub(crate) fn forget(&self, id: TicketId) {
        let mut all = self.tickets.lock();
        all.asked.forget(id);
        let was_there = all.take_off(id);
        drop(all);
        if was_there {
            (self.forgets)(id);
        }
    }

    /// Removes a condemned ticket that is out. If it was removed before, it may be on its way in
    /// again, and is not condemned then.
    pub(crate) fn forget_condemned(&self, id: TicketId) {
        let mut all = self.tickets.lock();
        if all.by_id.get(&id).is_some_and(OwnTicket::is_condemned) {
            all.asked.forget(id);
            all.take_off(id);
            drop(all);
            (self.forgets)(id);
        }
    }

    /// Returns whether all of these are of this client, so that it learns by itself when they
    /// leave.
    pub(crate) fn has_all(&self, nodes: &[Node]) -> bool {
        let all = self.tickets.lock();
        nodes.iter().all(|node| all.by_id.contains_key(&node.name.id))
    }

    /// Notes that a ticket is about to be removed.
    pub(crate) fn leaves(&self, id: TicketId) {
        let mut all = self.tickets.lock();
        if let Some(mine) = all.by_id.get_mut(&id).filter(|mine| mine.going == Going::Not) {
            mine.going = Going::Leaves;
        }
    }

    /// Returns whether this client is removing one of these.
    pub(crate) fn has_leaving(&self, nodes: &[Node]) -> bool {
        let all = self.tickets.lock();
        nodes.iter().any(|node| {
            all.by_id.get(&node.name.id).is_some_and(|mine| mine.going == Going::Leaves)
        })
    }

    /// Returns the count of this client's tickets in a line.
    pub(crate) fn in_line(&self, line: &LineId) -> usize {
        self.tickets.lock().lines.get(line).copied().unwrap_or(0)
    }

    /// Returns this client's tickets in a line.
    pub(crate) fn all_in(&self, line: &LineId) -> Vec<TicketId> {
        let all = self.tickets.lock();
        if !all.lines.contains_key(line) {
            return Vec::new();
        }
        let some = all.by_id.values().filter(|mine| mine.name.line == *line);
        some.map(|mine| mine.name.id).collect()
    }

    /// Returns the tickets of this session.
    pub(crate) fn of_session(&self, session: SessionId) -> Vec<TicketId> {
        let all = self.tickets.lock();
        let some = all.by_id.iter().filter(|(_, mine)| mine.session.id == session);
        some.map(|(id, _)| *id).collect()
    }

    /// Returns the tickets without a sign of life for a ttl, and those whose time to leave is over.
    pub(crate) fn overstayed(&self, session: SessionId, now: Time) -> Vec<OwnTicket> {
        let all = self.tickets.lock();
        let some = all.by_id.values().filter(|mine| mine.session.id == session);
        some.filter(|mine| all.is_overdue(mine, now)).cloned().collect()
    }

    /// Removes the overdue tickets of a session that is over. Others stay for a while, so that
    /// their owners learn of it. A join without an answer goes on.
    pub(crate) fn forget_overdue(&self, session: SessionId, now: Time) {
        let is_unwanted = |mine: &OwnTicket| mine.seen.is_none() || mine.is_overdue(now);
        let mut all = self.tickets.lock();
        let some = all.by_id.values().filter(|mine| mine.session.id == session);
        let ids: Vec<_> = some.filter(|mine| is_unwanted(mine)).map(|mine| mine.name.id).collect();
        for id in &ids {
            all.take_off(*id);
        }
        drop(all);
        ids.into_iter().for_each(&self.forgets);
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Share, Ticket, TicketState};

    use super::*;
    use crate::contract::Granted;

    const SESSION: SessionId = 7;
    const NOW: Time = Time { boot_ns: 0, raw_ns: 0 };

    fn session(id: SessionId) -> Arc<Session> {
        let (ttl, every) = (Duration::from_secs(9), Duration::from_secs(3));
        Session::new(Granted { session: id, ttl, every }, NOW)
    }

    /// Begins a join. Returns its name, and a function that makes a read of it at a moment.
    fn joins(own: &OwnTickets) -> (TicketName, impl Fn(SessionId, u64, TicketState) -> Sighting) {
        let ticket = Ticket::new(Key::new("k").unwrap(), Share::WHOLE);
        let name = TicketName::of(&ticket);
        assert!(own.ask(name.id, NOW, NOW.plus(ticket.ttl)));
        assert!(own.begin(&name, &session(SESSION), NOW));
        let node = Node {
            name: name.clone(),
            session: SESSION,
            created: 5,
            version: 5,
            ticket,
            base: 0,
            told: false,
            key: Arc::default(),
        };
        let seen = move |session, at, state| {
            let position = Position { state, ..Position::first(at) };
            Sighting { node: Node { session, ..node.clone() }, position }
        };
        (name, seen)
    }

    #[test]
    fn a_ticket_that_was_asked_to_join_again_is_known_to_have_ended_until_it_would_live_no_more() {
        let ttl = Duration::from_secs(30);
        let later = NOW.plus(ttl);
        for again in [false, true] {
            let own = OwnTickets::new(|_| {});
            let (name, _) = joins(&own);
            if again {
                assert!(own.ask(name.id, NOW, later));
                assert!(own.begin(&name, &session(SESSION), NOW));
            }
            own.end(name.id, NOW, ttl);
            assert_eq!(own.has_ended(name.id, NOW), again);
            assert!(!own.has_ended(name.id, later));
            assert!(own.ask(name.id, NOW, later));
            assert!(!own.has_ended(name.id, NOW), "it joins once more");
        }
    }

    #[test]
    fn a_late_notice_that_a_condemned_ticket_is_out_leaves_the_next_join_alone() {
        let own = OwnTickets::new(|_| {});
        let (name, _) = joins(&own);
        let later = NOW.plus(Duration::from_secs(100));
        assert!(own.condemn(name.id, later).is_some());
        assert!(own.ask(name.id, later, later.plus(Duration::from_secs(30))));
        assert!(!own.begin(&name, &session(SESSION), later), "it is being taken out");
        own.forget_condemned(name.id);
        assert!(own.ask(name.id, later, later.plus(Duration::from_secs(30))));
        own.forget_condemned(name.id);
        assert!(own.begin(&name, &session(SESSION), later), "it may come in again");
        own.forget_condemned(name.id);
        assert!(own.get(name.id).is_some());
    }

    #[test]
    fn a_sign_of_life_that_is_noted_late_takes_nothing_back() {
        let own = OwnTickets::new(|_| {});
        let (name, seen) = joins(&own);
        own.see(&seen(SESSION, 5, TicketState::Holding), true);
        let at = |seconds| NOW.plus(Duration::from_secs(seconds));
        assert!(own.sign(name.id, at(8)) && own.sign(name.id, at(1)));
        assert!(own.condemn(name.id, at(12)).is_none(), "it lives for nine seconds");
        assert!(own.condemn(name.id, at(17)).is_some());
        assert!(!own.sign(name.id, at(18)), "that comes too late");
    }

    #[test]
    fn a_served_ticket_stays_served_after_an_older_answer() {
        let own = OwnTickets::new(|_| ());
        let (name, seen) = joins(&own);
        let waits = seen(SESSION, 6, TicketState::Waiting);
        own.see(&waits, false);
        assert!(own.serve(&waits.node), "it is news");
        own.see(&seen(SESSION, 7, TicketState::Waiting), false);
        assert!(own.get(name.id).is_some_and(|mine| mine.holds));
    }

    #[test]
    fn a_read_of_an_earlier_life_of_a_ticket_does_not_count_for_this_one() {
        let own = OwnTickets::new(|_| ());
        let (name, seen) = joins(&own);
        own.see(&seen(SESSION - 1, 6, TicketState::Holding), true);
        assert!(own.get(name.id).is_some_and(|mine| mine.seen.is_none() && !mine.holds));
        assert!(own.give_up(name.id), "its join is under way");
    }
}
