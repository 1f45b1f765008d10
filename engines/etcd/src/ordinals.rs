//! The ordinals of this client's tickets: the last part of a ticket's key, after its lease. They
//! are used again, the smallest first.
//!
//! etcd keeps a mark of each deleted key until its history is compacted, and each read of a line
//! goes past the line's marks. With a new key for each ticket, each further lock of a client would
//! be slower. So a session has as many keys in a line as it had tickets there at the same time.
//!
//! A key carries no information. The create revision, and the id in the value, identify a ticket
//! and its place, and requests compare those.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use tenure_core::sync::Mutex;
use tenure_core::{Error, Loss, Result, TicketId};
use tenure_queue::{LineId, SessionId, TicketName};

/// Time after which a request without an answer does not arrive any more.
const LATE_MAX: Duration = Duration::from_secs(120);

/// The ordinals of one client's tickets.
#[derive(Default)]
pub(crate) struct Ordinals(Mutex<Taken>);

#[derive(Default)]
struct Taken {
    sessions: HashMap<SessionId, HashMap<LineId, LineOrdinals>>,
    tickets: HashMap<TicketId, OrdinalUse>,
    /// Ordinals to which a lost request may still come, and since when.
    doubtful: VecDeque<(Instant, OrdinalUse)>,
}

/// The ordinals of one session in one line.
#[derive(Default)]
struct LineOrdinals {
    /// All below this were taken once.
    next: u32,
    free: BTreeSet<u32>,
}

struct OrdinalUse {
    session: SessionId,
    line: LineId,
    ordinal: u32,
    /// A request for its join was not answered, and may still be on its way.
    is_asked: bool,
    /// The revision of its fence at its last request.
    fence: u64,
    /// Such a request is refused.
    is_fenced_out: bool,
}

/// A join that is in flight. If this is dropped without an answer, its outcome is unknown.
pub(crate) struct PendingJoin<'a> {
    ordinals: &'a Ordinals,
    id: TicketId,
    before: bool,
}

impl PendingJoin<'_> {
    /// Returns whether an earlier request for the ticket was not answered.
    pub(crate) fn was_asked_before(&self) -> bool {
        self.before
    }

    /// Notes that it was answered.
    pub(crate) fn answered(self) {
        if let Some(ticket) = self.ordinals.0.lock().tickets.get_mut(&self.id) {
            ticket.is_asked = self.before;
        }
    }
}

impl Ordinals {
    /// Adds a session.
    pub(crate) fn open(&self, session: SessionId) {
        self.0.lock().sessions.insert(session, HashMap::new());
    }

    /// Removes a session that is over.
    pub(crate) fn end(&self, session: SessionId) {
        self.0.lock().sessions.remove(&session);
    }

    /// Returns the session and the ordinal of this ticket, if it has one.
    pub(crate) fn of(&self, id: TicketId) -> Option<(SessionId, u32)> {
        self.0.lock().tickets.get(&id).map(|ticket| (ticket.session, ticket.ordinal))
    }

    /// Returns the lines and ordinals of this session's tickets.
    pub(crate) fn taken(&self, session: SessionId) -> HashSet<(LineId, u32)> {
        let taken = self.0.lock();
        let some = taken.tickets.values().filter(|ticket| ticket.session == session);
        some.map(|ticket| (ticket.line.clone(), ticket.ordinal)).collect()
    }

    /// Takes an ordinal for a ticket that is about to join with a request that names this revision
    /// of its fence. A ticket that joins again keeps its session and its ordinal.
    pub(crate) fn take(
        &self,
        name: &TicketName,
        session: SessionId,
        fence: u64,
    ) -> Result<(u32, PendingJoin<'_>)> {
        let mut taken = self.0.lock();
        taken.free_late();
        let known = taken.tickets.get_mut(&name.id).filter(|ticket| ticket.session == session);
        let before = known.as_ref().is_some_and(|ticket| ticket.is_asked);
        let ordinal = match known {
            Some(ticket) => {
                ticket.is_asked = true;
                ticket.is_fenced_out = false;
                ticket.fence = fence.max(ticket.fence);
                ticket.ordinal
            }
            None => taken.choose(name, session, fence)?,
        };
        drop(taken);
        Ok((ordinal, PendingJoin { ordinals: self, id: name.id, before }))
    }

    /// Takes another ordinal for a ticket that is not in the line, because another ticket has its
    /// key: a copy of this process has the same lease.
    pub(crate) fn elsewhere(&self, name: &TicketName, session: SessionId) -> Result<()> {
        let mut taken = self.0.lock();
        let before = taken.tickets.remove(&name.id);
        let fence = before.as_ref().map_or(0, |before| before.fence);
        taken.doubtful.extend(before.map(|before| (Instant::now(), before)));
        taken.choose(name, session, fence)?;
        taken.tickets.entry(name.id).and_modify(|ticket| ticket.is_asked = false);
        Ok(())
    }

    /// Returns whether a request for this ticket may still be on its way without a fence that stops
    /// it.
    pub(crate) fn is_doubtful(&self, id: TicketId) -> bool {
        self.0.lock().tickets.get(&id).is_some_and(OrdinalUse::is_doubtful)
    }

    /// Notes that the fence of this ticket was raised with this revision: requests that name an
    /// earlier one are refused.
    pub(crate) fn fenced_out(&self, id: TicketId, at: u64) {
        if let Some(ticket) = self.0.lock().tickets.get_mut(&id) {
            ticket.is_fenced_out |= ticket.fence < at;
        }
    }

    /// Forgets a ticket. Its ordinal may be used again, unless a lost request may still come to it.
    pub(crate) fn forget(&self, id: TicketId) {
        let mut taken = self.0.lock();
        if let Some(ticket) = taken.tickets.remove(&id) {
            taken.leave(ticket);
        }
    }
}

impl Taken {
    fn choose(&mut self, name: &TicketName, session: SessionId, fence: u64) -> Result<u32> {
        let lines =
            self.sessions.get_mut(&session).ok_or_else(|| Error::lost(Loss::SessionGone))?;
        let ordinal = lines.entry(name.line.clone()).or_default().take();
        let (line, is_asked, is_fenced_out) = (name.line.clone(), true, false);
        let ticket = OrdinalUse { session, line, ordinal, is_asked, fence, is_fenced_out };
        if let Some(before) = self.tickets.insert(name.id, ticket) {
            self.leave(before);
        }
        Ok(ordinal)
    }

    fn leave(&mut self, ticket: OrdinalUse) {
        if ticket.is_doubtful() {
            self.doubtful.push_back((Instant::now(), ticket));
        } else {
            self.free(&ticket);
        }
    }

    fn free_late(&mut self) {
        while let Some((since, ..)) = self.doubtful.front()
            && since.elapsed() > LATE_MAX
            && let Some((_, ticket)) = self.doubtful.pop_front()
        {
            self.free(&ticket);
        }
    }

    fn free(&mut self, ticket: &OrdinalUse) {
        let Some(lines) = self.sessions.get_mut(&ticket.session) else { return };
        let Some(line) = lines.get_mut(&ticket.line) else { return };
        line.free.insert(ticket.ordinal);
        if line.taken() == 0 {
            lines.remove(&ticket.line);
        }
    }
}

impl LineOrdinals {
    /// Takes the smallest free ordinal.
    fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn taken(&self) -> usize {
        self.next as usize - self.free.len()
    }
}

impl OrdinalUse {
    fn is_doubtful(&self) -> bool {
        self.is_asked && !self.is_fenced_out
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Share, Ticket};

    use super::*;

    const SESSION: SessionId = 77;

    fn name(key: &str) -> TicketName {
        TicketName::of(&Ticket::new(Key::new(key).unwrap(), Share::WHOLE))
    }

    fn ordinals() -> Ordinals {
        let ordinals = Ordinals::default();
        ordinals.open(SESSION);
        ordinals
    }

    fn comes_in(ordinals: &Ordinals, name: &TicketName) -> u32 {
        let (ordinal, asking) = ordinals.take(name, SESSION, 0).unwrap();
        asking.answered();
        ordinal
    }

    /// Sends a request that is not answered.
    fn is_lost(ordinals: &Ordinals, name: &TicketName) {
        let _unanswered = ordinals.take(name, SESSION, 0).unwrap();
    }

    #[test]
    fn a_session_has_as_many_ordinals_in_a_line_as_it_has_tickets_there_at_a_time() {
        let ordinals = ordinals();
        let (one, two, three) = (name("k"), name("k"), name("k"));
        assert_eq!([comes_in(&ordinals, &one), comes_in(&ordinals, &two)], [0, 1]);
        assert_eq!(comes_in(&ordinals, &one), 0, "asked twice is asked once");
        assert_eq!(comes_in(&ordinals, &name("other")), 0, "in another line");
        ordinals.forget(one.id);
        assert_eq!(comes_in(&ordinals, &three), 0);
        ordinals.forget(two.id);
        ordinals.forget(three.id);
        ordinals.forget(three.id);
        assert_eq!(comes_in(&ordinals, &name("k")), 0);
        assert_eq!(ordinals.0.lock().sessions[&SESSION].len(), 2);
    }

    #[test]
    fn an_ordinal_to_which_a_lost_request_may_still_come_is_not_used_again() {
        let ordinals = ordinals();
        let (lost, again) = (name("k"), name("k"));
        is_lost(&ordinals, &lost);
        assert!(ordinals.is_doubtful(lost.id));
        ordinals.forget(lost.id);
        assert_eq!(comes_in(&ordinals, &again), 1);
        assert!(!ordinals.is_doubtful(again.id));
        // Once no such request can arrive, it is free.
        let lost = name("k");
        is_lost(&ordinals, &lost);
        ordinals.fenced_out(lost.id, 9);
        ordinals.forget(lost.id);
        assert_eq!(comes_in(&ordinals, &name("k")), 2);
    }

    #[test]
    fn a_request_that_was_sent_after_the_fence_was_raised_may_come_in() {
        let ordinals = ordinals();
        let lost = name("k");
        is_lost(&ordinals, &lost);
        ordinals.fenced_out(lost.id, 9);
        assert!(!ordinals.is_doubtful(lost.id));
        let _unanswered = ordinals.take(&lost, SESSION, 9).unwrap();
        assert!(ordinals.is_doubtful(lost.id));
        ordinals.fenced_out(lost.id, 9);
        assert!(ordinals.is_doubtful(lost.id), "the answer of the first time came late");
        ordinals.fenced_out(lost.id, 10);
        assert!(!ordinals.is_doubtful(lost.id));
    }

    #[test]
    fn an_answer_says_nothing_of_an_earlier_request() {
        let ordinals = ordinals();
        let lost = name("k");
        is_lost(&ordinals, &lost);
        let (again, asking) = ordinals.take(&lost, SESSION, 0).unwrap();
        assert_eq!((again, asking.was_asked_before()), (0, true));
        asking.answered();
        assert!(ordinals.is_doubtful(lost.id));
    }

    #[test]
    fn a_ticket_that_joins_with_another_session_has_an_ordinal_of_that_session() {
        let ordinals = ordinals();
        let (one, two) = (name("k"), name("k"));
        comes_in(&ordinals, &one);
        is_lost(&ordinals, &two);
        ordinals.end(SESSION);
        assert!(ordinals.take(&name("k"), SESSION, 0).is_err());
        ordinals.open(SESSION + 1);
        let (ordinal, asking) = ordinals.take(&two, SESSION + 1, 0).unwrap();
        assert_eq!((ordinal, asking.was_asked_before()), (0, false));
        assert_eq!(ordinals.of(two.id), Some((SESSION + 1, 0)));
    }

    #[test]
    fn a_ticket_whose_key_another_ticket_has_gets_another_ordinal() {
        let ordinals = ordinals();
        let one = name("k");
        comes_in(&ordinals, &one);
        ordinals.elsewhere(&one, SESSION).unwrap();
        assert_eq!(comes_in(&ordinals, &one), 1);
        ordinals.forget(one.id);
        assert_eq!(ordinals.0.lock().tickets.len(), 0);
    }
}
