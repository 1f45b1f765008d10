//! A lease behind a mutex, shared by the waiter, the guard and the renewer. It wakes tasks that
//! wait for a change.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::lease::options::RenewalSchedule;
use crate::lease::state::{LeaseState, State};
use crate::telemetry::{self, Change};
use crate::wake::wake_all;
use crate::{Key, Loss, Note, Place, Result, Share, Ticket, TicketId, Time};

pub(crate) struct SharedLease {
    pub(crate) id: TicketId,
    pub(crate) key: Key,
    known: Mutex<LeaseData>,
    /// Notified of each change and each answer.
    news: Notify,
}

struct LeaseData {
    ticket: Ticket,
    hold: LeaseState,
    /// The ttl that the store granted last.
    life: Option<Duration>,
    /// Its position in the renewer's queue.
    slot: Option<Slot>,
}

/// When the renewer handles a lease next, and a count that distinguishes equal times.
pub(crate) type Slot = (u64, u64);

impl SharedLease {
    pub(crate) fn new(ticket: Ticket, rhythm: RenewalSchedule) -> Arc<Self> {
        Arc::new(Self {
            id: ticket.id,
            key: ticket.key.clone(),
            known: Mutex::new(LeaseData {
                ticket,
                hold: LeaseState::new(rhythm),
                life: None,
                slot: None,
            }),
            news: Notify::new(),
        })
    }

    /// Reads or changes the state, and notifies waiting tasks of a change.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut LeaseState) -> T) -> T {
        let (answer, changed, change) = {
            let mut known = self.lock();
            let before = (known.hold.state(), known.hold.failed());
            let answer = act(&mut known.hold);
            let changed = before != (known.hold.state(), known.hold.failed());
            (answer, changed, Change::since(before.0, &known.hold))
        };
        if changed {
            wake_all(&self.news);
        }
        self.report(change);
        answer
    }

    /// Applies the answer to a join or renewal. It notifies waiting tasks even without a change, so
    /// a lost push costs at most one renewal period.
    pub(crate) fn hear(&self, sent: Time, now: Time, answer: Result<Option<Place>>) -> State {
        let (state, change) = {
            let mut known = self.lock();
            // A store whose clock was set back may report a longer ttl than requested.
            let ttl = known.ticket.ttl;
            if let Ok(Some(Place { life: Some(life), .. })) = &answer {
                known.life = Some(*life);
            }
            let answer = answer.map(|place| {
                place.map(|place| Place { life: place.life.map(|life| life.min(ttl)), ..place })
            });
            let before = known.hold.state();
            known.hold.hear(sent, now, answer);
            (known.hold.state(), Change::since(before, &known.hold))
        };
        wake_all(&self.news);
        self.report(change);
        state
    }

    /// Reports a loss that the release of the lock found.
    pub(crate) fn was_gone_at_release(&self, token: u64) {
        let held_for = self.with(|hold| hold.held_for());
        telemetry::lost(&self.key, self.id, token, Loss::Broken, held_for);
    }

    /// Metrics and logs are written after the lock on the lease is released.
    fn report(&self, change: Option<Change>) {
        if let Some(change) = change {
            change.report(&self.key, self.id);
        }
    }

    /// Wakes waiting tasks, which then apply the time.
    pub(crate) fn ring(&self) {
        wake_all(&self.news);
    }

    /// A future that is ready after the next notification.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.news.notified()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.lock().ticket.clone()
    }

    /// The ttl that the store granted last. `None`: the lease does not expire.
    pub(crate) fn life(&self) -> Option<Duration> {
        self.lock().life
    }

    /// Sets the note that the next renewals write.
    pub(crate) fn set_note(&self, note: Note) {
        self.lock().ticket.note = note;
    }

    /// Sets the share that the next renewals write.
    pub(crate) fn set_share(&self, share: Share) {
        self.lock().ticket.share = share;
    }

    pub(crate) fn move_to(&self, slot: Option<Slot>) -> Option<Slot> {
        std::mem::replace(&mut self.lock().slot, slot)
    }

    fn lock(&self) -> MutexGuard<'_, LeaseData> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::lease::options::LockOptions;
    use crate::{Engine as _, Memory, TTL_DEFAULT, TicketState};

    fn kept() -> Arc<SharedLease> {
        let ticket = Ticket::new(Key::new("k").unwrap(), Share::WHOLE);
        SharedLease::new(
            ticket,
            LockOptions::default().rhythm(&Memory::new().guarantees()).unwrap(),
        )
    }

    #[test]
    fn a_ttl_that_is_longer_than_requested_is_shown_and_not_relied_on() {
        let (kept, now) = (kept(), Time { boot_ns: 0, raw_ns: 0 });
        let (standing, life) = (TicketState::Holding, Some(TTL_DEFAULT * 2));
        let place =
            Place { number: 1, state: standing, ahead: 0, life, look: None, leaving: false };
        kept.hear(now, now, Ok(Some(place)));
        let remains = kept.with(|hold| hold.remaining(now)).unwrap();
        assert!(remains < TTL_DEFAULT && remains > TTL_DEFAULT / 2);
        assert_eq!(kept.life(), life);
    }

    #[test]
    fn waiting_tasks_are_woken_by_a_notification_or_a_change() {
        let kept = kept();
        let news = || {
            let mut news = Box::pin(kept.news());
            news.as_mut().enable();
            news
        };
        let (one, other) = (news(), news());
        kept.with(|hold| hold.remaining(Time::NEVER));
        assert!(news().now_or_never().is_none(), "nothing has changed");
        kept.ring();
        assert!(one.now_or_never().is_some() && other.now_or_never().is_some());
        let after = news();
        kept.with(|hold| hold.release(Time::NEVER)).unwrap();
        assert!(after.now_or_never().is_some());
    }
}
