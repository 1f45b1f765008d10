//! Berths: the names of ticket keys, used again. etcd keeps a mark of every deleted name until its
//! history is compacted, and each read of a line goes past the line's marks. If names never came
//! again, each further lock would be slower.
//!
//! A session has a number, as small as there is a free one. Its tickets have the names `0`, `1`,
//! `2`… of that number in each line. So a line has as many names as it had tickets at the same
//! time. A name carries no information. The create revision, and the id in the value, identify a
//! ticket and its place, and requests compare those.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tenure_core::{Error, Loss, Result, TicketId};
use tenure_queue::{LineId, Name, SessionId};

use crate::keys::{Berth, Keys};
use crate::names::Names;

/// Time after which a request without an answer does not arrive any more.
const LATE_MAX: Duration = Duration::from_secs(120);

/// The clients of this process, for callers that know only a ticket's id.
static CLIENTS: LazyLock<Mutex<Vec<Client>>> = LazyLock::new(Mutex::default);

type Client = (Keys, Weak<Mutex<Taken>>);

/// The berths that one client has taken.
pub(crate) struct Berths(Arc<Mutex<Taken>>);

#[derive(Default)]
struct Taken {
    sessions: HashMap<SessionId, Session>,
    tickets: HashMap<TicketId, Ticket>,
    /// Berths to which a lost request may still come, and since when.
    doubtful: VecDeque<(Instant, Ticket)>,
}

struct Session {
    number: u32,
    lines: HashMap<LineId, Names>,
}

struct Ticket {
    berth: Berth,
    session: SessionId,
    line: LineId,
    /// The revision with which its key was made; 0 until that is known.
    created: u64,
    /// A request for its join was not answered, and may still be on its way.
    is_asked: bool,
    /// The revision of its latch at its last request.
    latch: u64,
    /// Such a request is refused.
    is_forestalled: bool,
    /// It is about to leave.
    leaves: bool,
}

/// A join that is in flight. If this is dropped without an answer, its outcome is unknown.
pub(crate) struct Asking<'a> {
    berths: &'a Berths,
    id: TicketId,
    before: bool,
    alone: bool,
    others: bool,
}

impl Asking<'_> {
    /// Returns whether no other ticket of its session has a berth in its line.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Returns whether several other tickets of its session are in its line, and stay there for
    /// now. A single one may be a ticket that the caller has just dropped, and that leaves in a
    /// moment.
    pub(crate) fn has_others(&self) -> bool {
        self.others
    }

    /// Returns whether an earlier request for the ticket was not answered.
    pub(crate) fn was_asked_before(&self) -> bool {
        self.before
    }

    /// Notes that it was answered.
    pub(crate) fn answered(self) {
        if let Some(ticket) = self.berths.lock().tickets.get_mut(&self.id) {
            ticket.is_asked = self.before;
        }
    }
}

impl Berths {
    /// Returns the berths of a client with these keys.
    pub(crate) fn new(keys: Keys) -> Self {
        let taken = Arc::default();
        let mut clients = lock(&CLIENTS);
        clients.retain(|(_, client)| client.strong_count() > 0);
        clients.push((keys, Arc::downgrade(&taken)));
        Self(taken)
    }

    /// Returns the key of a ticket that a client of this process has in a line, and the revision
    /// with which it was made. Returns `None` until that is known: a comparison with 0 would mean
    /// that there is no such key.
    pub(crate) fn key_of(name: &Name) -> Option<(Vec<u8>, u64)> {
        let clients = lock(&CLIENTS).clone();
        clients.into_iter().find_map(|(keys, taken)| {
            let taken = taken.upgrade()?;
            let ticket = lock(&*taken).tickets.get(&name.id).map(|own| (own.berth, own.created));
            let (berth, created) = ticket.filter(|(_, created)| *created > 0)?;
            Some((keys.ticket(name, berth), created))
        })
    }

    /// Notes that a session has this number, and that no other session has it.
    pub(crate) fn open(&self, session: SessionId, number: u32) {
        self.lock().sessions.insert(session, Session { number, lines: HashMap::new() });
    }

    /// Removes a session that is over. Its number may be another session's now.
    pub(crate) fn end(&self, session: SessionId) {
        self.lock().sessions.remove(&session);
    }

    /// Returns the number of this session.
    pub(crate) fn number(&self, session: SessionId) -> Option<u32> {
        self.lock().sessions.get(&session).map(|session| session.number)
    }

    /// Returns the berth of this ticket, if it has one.
    pub(crate) fn of(&self, id: TicketId) -> Option<Berth> {
        self.lock().tickets.get(&id).map(|ticket| ticket.berth)
    }

    /// Returns the berths of this session's tickets.
    pub(crate) fn taken(&self, session: SessionId) -> HashSet<(LineId, Berth)> {
        let taken = self.lock();
        let some = taken.tickets.values().filter(|ticket| ticket.session == session);
        some.map(|ticket| (ticket.line.clone(), ticket.berth)).collect()
    }

    /// Takes a berth for a ticket that is about to join with a request that names this revision of
    /// its latch. A ticket that joins again keeps its berth.
    pub(crate) fn take(
        &self,
        name: &Name,
        session: SessionId,
        latch: u64,
    ) -> Result<(Berth, Asking<'_>)> {
        let mut taken = self.lock();
        taken.free_late();
        let before = taken.tickets.get(&name.id).is_some_and(|ticket| ticket.is_asked);
        let berth = match taken.tickets.get_mut(&name.id) {
            Some(ticket) => {
                ticket.is_asked = true;
                ticket.is_forestalled = false;
                ticket.latch = latch.max(ticket.latch);
                ticket.berth
            }
            None => taken.choose(name, session, latch, None)?,
        };
        let line = taken.sessions.get(&session).and_then(|own| own.lines.get(&name.line));
        let alone = line.is_some_and(|line| line.taken() == 1);
        let others = line.is_some_and(|line| line.taken().saturating_sub(line.leaving) > 2);
        drop(taken);
        Ok((berth, Asking { berths: self, id: name.id, before, alone, others }))
    }

    /// Takes another berth for a ticket that is not in the line, because another ticket is at its
    /// berth.
    pub(crate) fn elsewhere(&self, name: &Name, session: SessionId) -> Result<()> {
        let far = u32::MAX / 2 + getrandom::u32().unwrap_or(0) / 2;
        let mut taken = self.lock();
        let before = taken.tickets.remove(&name.id);
        let latch = before.as_ref().map_or(0, |before| before.latch);
        taken.doubtful.extend(before.map(|before| (Instant::now(), before)));
        taken.choose(name, session, latch, Some(far)).map(drop)?;
        taken.tickets.entry(name.id).and_modify(|ticket| ticket.is_asked = false);
        Ok(())
    }

    /// Notes that a ticket is about to leave its line.
    pub(crate) fn leaves(&self, id: TicketId) {
        let mut taken = self.lock();
        let Taken { sessions, tickets, .. } = &mut *taken;
        let Some(ticket) = tickets.get_mut(&id).filter(|ticket| !ticket.leaves) else { return };
        ticket.leaves = true;
        let session = sessions.get_mut(&ticket.session);
        if let Some(line) = session.and_then(|session| session.lines.get_mut(&ticket.line)) {
            line.leaving += 1;
        }
    }

    /// Returns whether a request for this ticket may still be on its way without a latch that stops
    /// it.
    pub(crate) fn is_doubtful(&self, id: TicketId) -> bool {
        self.lock().tickets.get(&id).is_some_and(Ticket::is_doubtful)
    }

    /// Notes that a ticket joined with this revision.
    pub(crate) fn came_in(&self, id: TicketId, created: u64) {
        if let Some(ticket) = self.lock().tickets.get_mut(&id) {
            ticket.created = created;
        }
    }

    /// Notes that the latch of this ticket was shut with this revision: requests that name an
    /// earlier one are refused.
    pub(crate) fn forestalled(&self, id: TicketId, at: u64) {
        if let Some(ticket) = self.lock().tickets.get_mut(&id) {
            ticket.is_forestalled |= ticket.latch < at;
        }
    }

    /// Forgets a ticket. Its name may be used again, unless a lost request may still come to it.
    pub(crate) fn forget(&self, id: TicketId) {
        self.lock().forget(id);
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        lock(&self.0)
    }
}

impl Taken {
    /// Returns a free name, or this one.
    fn choose(
        &mut self,
        name: &Name,
        session: SessionId,
        latch: u64,
        this: Option<u32>,
    ) -> Result<Berth> {
        let of = self.sessions.get_mut(&session).ok_or_else(|| Error::lost(Loss::SessionGone))?;
        let line = || of.lines.entry(name.line.clone()).or_default().take();
        let number = of.number;
        let berth = berth(number, this.unwrap_or_else(line));
        let (line, is_forestalled) = (name.line.clone(), false);
        let (created, is_asked, leaves) = (0, true, false);
        let ticket =
            Ticket { berth, session, line, created, is_asked, latch, is_forestalled, leaves };
        self.tickets.insert(name.id, ticket);
        Ok(berth)
    }

    fn forget(&mut self, id: TicketId) {
        let Some(ticket) = self.tickets.remove(&id) else { return };
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

    fn free(&mut self, ticket: &Ticket) {
        let Some(session) = self.sessions.get_mut(&ticket.session) else { return };
        let Some(line) = session.lines.get_mut(&ticket.line) else { return };
        line.leaving = line.leaving.saturating_sub(usize::from(ticket.leaves));
        if line.give_back(nth(ticket.berth)) {
            session.lines.remove(&ticket.line);
        }
    }
}

impl Ticket {
    fn is_doubtful(&self) -> bool {
        self.is_asked && !self.is_forestalled
    }
}

fn berth(number: u32, nth: u32) -> Berth {
    u64::from(number) << 32 | u64::from(nth)
}

fn nth(berth: Berth) -> u32 {
    u32::try_from(berth & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use tenure_core::{Key, Share, Ticket};

    use super::*;

    const SESSION: SessionId = 77;

    fn name(key: &str) -> Name {
        Name::of(&Ticket::new(Key::new(key).unwrap(), Share::WHOLE))
    }

    fn berths() -> Berths {
        let berths = Berths::new(Keys::of("p"));
        berths.open(SESSION, 5);
        berths
    }

    fn comes_in(berths: &Berths, name: &Name) -> Berth {
        let (berth, asking) = berths.take(name, SESSION, 0).unwrap();
        asking.answered();
        berth
    }

    /// Sends a request that is not answered.
    fn is_lost(berths: &Berths, name: &Name) {
        let _unanswered = berths.take(name, SESSION, 0).unwrap();
    }

    #[test]
    fn a_line_has_as_many_names_as_it_has_tickets_at_a_time() {
        let berths = berths();
        let (one, two, three) = (name("k"), name("k"), name("k"));
        assert_eq!([comes_in(&berths, &one), comes_in(&berths, &two)], [berth(5, 0), berth(5, 1)]);
        assert_eq!(comes_in(&berths, &one), berth(5, 0), "asked twice is asked once");
        assert_eq!(comes_in(&berths, &name("other")), berth(5, 0), "in another line");
        berths.forget(one.id);
        assert_eq!(comes_in(&berths, &three), berth(5, 0));
        berths.forget(two.id);
        berths.forget(three.id);
        berths.forget(three.id);
        assert_eq!(comes_in(&berths, &name("k")), berth(5, 0));
        assert_eq!(berths.lock().sessions[&SESSION].lines.len(), 2);
    }

    #[test]
    fn several_others_stay_in_a_line_until_all_but_one_are_about_to_leave() {
        let (berths, names) = (berths(), [name("k"), name("k"), name("k")]);
        let has_others = |name: &Name| {
            let (_, asking) = berths.take(name, SESSION, 0).unwrap();
            asking.has_others()
        };
        assert_eq!(names.each_ref().map(has_others), [false, false, true]);
        berths.leaves(names[0].id);
        berths.leaves(names[0].id);
        let last = name("k");
        assert!(has_others(&last), "two of three stay");
        berths.leaves(names[1].id);
        berths.forget(names[0].id);
        assert!(!has_others(&last) && has_others(&name("k")));
    }

    #[test]
    fn a_name_that_somebody_may_still_come_to_is_not_used_again() {
        let berths = berths();
        let (lost, again) = (name("k"), name("k"));
        is_lost(&berths, &lost);
        assert!(berths.is_doubtful(lost.id));
        berths.forget(lost.id);
        assert_eq!(comes_in(&berths, &again), berth(5, 1));
        assert!(!berths.is_doubtful(again.id));
        // Once no such request can arrive, it is free.
        let lost = name("k");
        is_lost(&berths, &lost);
        berths.forestalled(lost.id, 9);
        berths.forget(lost.id);
        assert_eq!(comes_in(&berths, &name("k")), berth(5, 2));
    }

    #[test]
    fn a_request_that_was_sent_after_the_latch_was_shut_may_come_in() {
        let berths = berths();
        let lost = name("k");
        is_lost(&berths, &lost);
        berths.forestalled(lost.id, 9);
        assert!(!berths.is_doubtful(lost.id));
        let _unanswered = berths.take(&lost, SESSION, 9).unwrap();
        assert!(berths.is_doubtful(lost.id));
        berths.forestalled(lost.id, 9);
        assert!(berths.is_doubtful(lost.id), "the answer of the first time came late");
        berths.forestalled(lost.id, 10);
        assert!(!berths.is_doubtful(lost.id));
    }

    #[test]
    fn an_answer_says_nothing_of_an_earlier_request() {
        let berths = berths();
        let lost = name("k");
        is_lost(&berths, &lost);
        let (berth_again, asking) = berths.take(&lost, SESSION, 0).unwrap();
        assert_eq!((berth_again, asking.was_asked_before()), (berth(5, 0), true));
        asking.answered();
        assert!(berths.is_doubtful(lost.id));
    }

    #[test]
    fn a_session_that_is_over_takes_its_names_along() {
        let berths = berths();
        let one = name("k");
        comes_in(&berths, &one);
        berths.end(SESSION);
        assert!(berths.take(&name("k"), SESSION, 0).is_err());
        berths.open(SESSION + 1, 6);
        berths.forget(one.id);
        let (berth_there, _) = berths.take(&name("k"), SESSION + 1, 0).unwrap();
        assert_eq!(berth_there, berth(6, 0));
    }

    #[test]
    fn whoever_is_not_at_its_own_berth_gets_another() {
        let berths = berths();
        let one = name("k");
        comes_in(&berths, &one);
        berths.elsewhere(&one, SESSION).unwrap();
        assert!(nth(comes_in(&berths, &one)) > u32::MAX / 4);
        berths.forget(one.id);
        assert_eq!(berths.lock().tickets.len(), 0);
    }

    #[test]
    fn a_ticket_is_found_by_its_id_in_whichever_client_has_it() {
        let (one, other) = (berths(), berths());
        let ticket = name("k");
        comes_in(&one, &name("k"));
        let berth = comes_in(&one, &ticket);
        assert_eq!(Berths::key_of(&ticket), None, "its revision is not known");
        one.came_in(ticket.id, 7);
        assert_eq!(Berths::key_of(&ticket), Some((Keys::of("p").ticket(&ticket, berth), 7)));
        drop(one);
        assert_eq!(Berths::key_of(&ticket), None);
        drop(other);
    }
}
