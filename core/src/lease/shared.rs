//! A lease behind a mutex, shared by the waiter, the guard and the renewer. It wakes tasks that
//! wait for a change.

use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::lease::figures::{Meter, Standing, Wakeup};
use crate::lease::options::RenewalSchedule;
use crate::lease::state::{LeaseState, State};
use crate::lease::telemetry::{self, Change};
use crate::sync::Mutex;
use crate::wake::wake_all;
use crate::{Key, Loss, Note, Place, Result, Share, Ticket, TicketId, Time};

pub(crate) struct SharedLease {
    pub(crate) id: TicketId,
    pub(crate) key: Key,
    meter: Meter,
    data: Mutex<LeaseData>,
    /// Notified of each change and each answer.
    changed: Notify,
}

struct LeaseData {
    ticket: Ticket,
    lease: LeaseState,
    /// The ttl that the store granted last.
    life: Option<Duration>,
    /// Its position in the renewer's queue.
    slot: Option<Slot>,
    /// The gauge that the ticket is in.
    standing: Option<Standing>,
    /// The store has pushed that the ticket may be served.
    is_pushed: bool,
}

/// A change, for metrics and logs.
struct Report {
    change: Option<Change>,
    from: Option<Standing>,
    to: Option<Standing>,
    /// The time that was left of the lease when a renewal was confirmed.
    slack: Option<Duration>,
}

impl LeaseData {
    /// The report of a change from this state to the present one.
    fn report(&mut self, before: State) -> Report {
        let wakeup = if self.is_pushed { Wakeup::Push } else { Wakeup::Poll };
        let to = Standing::of(self.lease.state(), self.ticket.share.kind());
        let from = std::mem::replace(&mut self.standing, to);
        Report { change: Change::since(before, &self.lease, wakeup), from, to, slack: None }
    }
}

/// When the renewer handles a lease next, and a count that distinguishes equal times.
pub(crate) type Slot = (u64, u64);

impl SharedLease {
    pub(crate) fn new(ticket: Ticket, schedule: RenewalSchedule, meter: Meter) -> Arc<Self> {
        Arc::new(Self {
            id: ticket.id,
            key: ticket.key.clone(),
            meter,
            data: Mutex::new(LeaseData {
                ticket,
                lease: LeaseState::new(schedule),
                life: None,
                slot: None,
                standing: None,
                is_pushed: false,
            }),
            changed: Notify::new(),
        })
    }

    /// Reads or changes the state, and notifies waiting tasks of a change.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut LeaseState) -> T) -> T {
        let (answer, is_changed, report) = {
            let mut data = self.lock();
            let before = (data.lease.state(), data.lease.failed());
            let answer = act(&mut data.lease);
            let is_changed = before != (data.lease.state(), data.lease.failed());
            (answer, is_changed, data.report(before.0))
        };
        if is_changed {
            wake_all(&self.changed);
        }
        self.report(&report);
        answer
    }

    /// Applies the answer to a join or renewal. It notifies waiting tasks even without a change, so
    /// a lost push costs at most one renewal period.
    pub(crate) fn apply(&self, sent: Time, now: Time, answer: Result<Option<Place>>) -> State {
        let (state, report) = {
            let mut data = self.lock();
            let is_confirmed = matches!(answer, Ok(Some(_)));
            // A store whose clock was set back may report a longer ttl than requested.
            let ttl = data.ticket.ttl;
            if let Ok(Some(Place { life: Some(life), .. })) = &answer {
                data.life = Some(*life);
            }
            let answer = answer.map(|place| {
                place.map(|place| Place { life: place.life.map(|life| life.min(ttl)), ..place })
            });
            let before = data.lease.state();
            let slack = data.lease.slack(now).filter(|_| is_confirmed);
            data.lease.apply(sent, now, answer);
            (data.lease.state(), Report { slack, ..data.report(before) })
        };
        wake_all(&self.changed);
        self.report(&report);
        state
    }

    /// Reports a loss that the release of the lock found.
    pub(crate) fn was_gone_at_release(&self, token: u64) {
        let held_for = self.with(|lease| lease.held_for());
        telemetry::lost(self.meter, &self.key, self.id, token, Loss::Broken, held_for);
    }

    /// Metrics and logs are written after the lock on the lease is released.
    fn report(&self, report: &Report) {
        Standing::change(self.meter, report.from, report.to);
        if let Some(change) = report.change {
            change.report(self.meter, &self.key, self.id);
        }
        if let (Some(slack), Some(Standing::Holding { .. })) = (report.slack, report.to) {
            self.meter.renewed_with(slack);
        }
    }

    /// Whether the store has just pushed that the ticket may be served.
    pub(crate) fn set_pushed(&self, is_pushed: bool) {
        self.lock().is_pushed = is_pushed;
    }

    /// Wakes waiting tasks, which then apply the time.
    pub(crate) fn notify(&self) {
        wake_all(&self.changed);
    }

    /// A future that is ready after the next notification.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
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
        let report = {
            let mut data = self.lock();
            data.ticket.share = share;
            let state = data.lease.state();
            data.report(state)
        };
        self.report(&report);
    }

    pub(crate) fn move_to(&self, slot: Option<Slot>) -> Option<Slot> {
        std::mem::replace(&mut self.lock().slot, slot)
    }

    fn lock(&self) -> MutexGuard<'_, LeaseData> {
        self.data.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::lease::options::LockOptions;
    use crate::{Engine as _, Memory, TTL_DEFAULT, TicketState};

    fn shared() -> Arc<SharedLease> {
        let ticket = Ticket::new(Key::new("k").unwrap(), Share::WHOLE);
        let meter = Meter { engine: "memory", group: None, election: None };
        SharedLease::new(
            ticket,
            LockOptions::default().schedule(&Memory::new().guarantees()).unwrap(),
            meter,
        )
    }

    #[test]
    fn a_ttl_that_is_longer_than_requested_is_shown_and_not_relied_on() {
        let (shared, now) = (shared(), Time { boot_ns: 0, raw_ns: 0 });
        let (standing, life) = (TicketState::Holding, Some(TTL_DEFAULT * 2));
        let place =
            Place { number: 1, state: standing, ahead: 0, life, look: None, leaving: false };
        shared.apply(now, now, Ok(Some(place)));
        let remains = shared.with(|lease| lease.remaining(now)).unwrap();
        assert!(remains < TTL_DEFAULT && remains > TTL_DEFAULT / 2);
        assert_eq!(shared.life(), life);
    }

    #[test]
    fn waiting_tasks_are_woken_by_a_notification_or_a_change() {
        let shared = shared();
        let news = || {
            let mut news = Box::pin(shared.changed());
            news.as_mut().enable();
            news
        };
        let (one, other) = (news(), news());
        shared.with(|lease| lease.remaining(Time::NEVER));
        assert!(news().now_or_never().is_none(), "nothing has changed");
        shared.notify();
        assert!(one.now_or_never().is_some() && other.now_or_never().is_some());
        let after = news();
        shared.with(|lease| lease.release(Time::NEVER)).unwrap();
        assert!(after.now_or_never().is_some());
    }
}
