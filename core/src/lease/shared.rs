//! Kept: one ticket with its hold behind a lock, which the waiter, the guard and the keeper share. It decides nothing; it
//! wakes whoever waits for news of the hold.

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
    /// Rung whenever something new is known.
    news: Notify,
}

struct LeaseData {
    ticket: Ticket,
    hold: LeaseState,
    /// For how long it lives in the store without another sign of life, as the store said last.
    life: Option<Duration>,
    /// Where the keeper has it in its roster.
    slot: Option<Slot>,
}

/// When the keeper looks at a ticket next; the count tells apart what is due together.
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

    /// Reads or changes what is known, and rings if the state has changed.
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

    /// The store answered a join or a renewal. Whoever waits is rung even if nothing changed, so
    /// that a lost push costs one heartbeat and no more.
    pub(crate) fn hear(&self, sent: Time, now: Time, answer: Result<Option<Place>>) -> State {
        let (state, change) = {
            let mut known = self.lock();
            // A store whose clock was set back believes in a longer life than anybody asked for.
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

    /// Reports a loss that only the release of the lock found out.
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

    /// Wakes whoever waits for news, to look at the clock.
    pub(crate) fn ring(&self) {
        wake_all(&self.news);
    }

    /// Ready once there is news after this call.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.news.notified()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.lock().ticket.clone()
    }

    /// What the store said last of how long it lives without another sign of life; `None` if the kernel sees to it.
    pub(crate) fn life(&self) -> Option<Duration> {
        self.lock().life
    }

    /// From now on every sign of life carries this note.
    pub(crate) fn set_note(&self, note: Note) {
        self.lock().ticket.note = note;
    }

    /// From now on every sign of life carries this share.
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
    fn a_life_that_is_longer_than_what_was_asked_for_is_told_and_not_believed() {
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
    fn who_waits_for_news_is_woken_when_rung_or_when_the_state_changes() {
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
