//! A ticket that joins, waits or holds. It leaves its line when it is dropped.

use std::sync::Arc;

use crate::background::admission::Slot;
use crate::background::client::Client;
use crate::background::releaser::JoinState;
use crate::lease::figures::Meter;
use crate::lease::options::RenewalSchedule;
use crate::lease::shared::SharedLease;
use crate::lease::state::State;
use crate::lease::telemetry::HoldSpan;
use crate::{Engine as _, Error, LeaveMode, LeaveOutcome, Loss, Result, Ticket, Time};

#[must_use = "the ticket leaves its line as soon as its lease is dropped"]
pub(crate) struct Lease {
    pub(crate) shared: Arc<SharedLease>,
    pub(crate) client: Arc<Client>,
    /// The ticket's number, once it is served.
    pub(crate) number: u64,
    /// `None`: the ticket is not in the line, and no join of it can still happen.
    join: Option<JoinState>,
    /// Several joins were sent, so one may happen after the ticket has left, until this time.
    late_until: Option<Time>,
    /// The place of a waiting ticket, where their number is limited: see
    /// [`Admission`](crate::background::admission::Admission).
    slot: Option<Slot>,
    /// The span of the hold, once the ticket is served.
    pub(crate) hold: Option<HoldSpan>,
}

impl Lease {
    /// A lease whose join was not sent yet.
    pub(crate) fn new(
        client: &Arc<Client>,
        ticket: Ticket,
        schedule: RenewalSchedule,
        meter: Meter,
        slot: Option<Slot>,
    ) -> Self {
        client.tickets.add();
        Self {
            shared: SharedLease::new(ticket, schedule, meter),
            client: client.clone(),
            number: 0,
            join: None,
            late_until: None,
            slot,
            hold: None,
        }
    }

    /// Must be called before each join is sent: the ticket then leaves if the caller is cancelled.
    pub(crate) fn sends_join(&mut self) {
        if self.join.replace(JoinState::Joining).is_some() {
            let within = self.client.guarantees.answers_within.max(self.shared.ticket().ttl);
            self.late_until = Some(self.client.runtime.now().plus(within));
        }
    }

    /// The store has confirmed that the ticket is in the line.
    pub(crate) fn has_joined(&mut self) {
        self.join = Some(JoinState::InLine);
    }

    /// The store has answered that the ticket is not in the line. An earlier join that was not
    /// answered may still put it there.
    pub(crate) fn is_refused(&mut self) {
        if self.late_until.is_none() {
            self.join = None;
        }
    }

    /// The ticket is served, so it no longer waits.
    pub(crate) fn into_served(mut self, number: u64) -> Self {
        if let Some(slot) = self.slot.take() {
            slot.served();
        }
        self.number = number;
        self
    }

    /// A join that was not answered may happen after the ticket has left, until its time is over.
    fn expect_late_joins(&mut self) {
        let now = self.client.runtime.now();
        if self.late_until.take().is_some_and(|until| !now.has_reached(until)) {
            self.client.late_joins.give_back(self.shared.ticket(), JoinState::Repeated, None, None);
        }
    }

    fn end_hold(&mut self, loss: Option<Loss>) {
        if let Some(hold) = self.hold.take() {
            hold.end(loss);
        }
    }

    pub(crate) async fn release(mut self) -> Result<()> {
        let was_held = self.shared.with(|lease| lease.release(self.client.runtime.now()));
        self.client.renewer.forget(&self.shared);
        let left = match self.client.engine.leave(&self.shared.ticket(), LeaveMode::Now).await {
            Ok(left) => left,
            // A known loss is more important than a failed release.
            Err(error) => return was_held.and(Err(error)),
        };
        self.expect_late_joins();
        self.join = None;
        if left == LeaveOutcome::Absent && was_held.is_ok() {
            self.shared.was_gone_at_release(self.number);
            self.end_hold(Some(Loss::Broken));
            return Err(Error::lost(Loss::Broken));
        }
        was_held
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.client.renewer.forget(&self.shared);
        self.expect_late_joins();
        if let Some(join) = self.join {
            let now = self.client.runtime.now();
            let number = self.shared.with(|lease| {
                let state = lease.judge(now);
                // A loss that was reported before stays as it is: the owner has seen it or has
                // gone.
                let _ = lease.release(now);
                if let State::Holding(number) = state { Some(number) } else { None }
            });
            let held = number.map(|number| (self.shared.clone(), number));
            if let Some(slot) = &mut self.slot {
                slot.gave_up();
            }
            self.client.releaser.give_back(self.shared.ticket(), join, held, self.slot.take());
        }
        match self.shared.with(|lease| lease.state()) {
            State::Lost(loss) => self.end_hold(Some(loss)),
            _ => self.end_hold(None),
        }
        self.client.tickets.remove();
    }
}
