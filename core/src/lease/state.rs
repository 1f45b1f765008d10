//! The state machine of a lease. It is pure: answers and times are arguments, and it sends no
//! request.

use std::time::Duration;

use crate::lease::deadline::{deadline, usable};
use crate::lease::options::RenewalSchedule;
use crate::{Error, Loss, Place, Result, TicketState, Time};

/// Renewals that may fail in a row before a waiter gives up, in a store where tickets do not
/// expire.
const SILENCES_MAX: u32 = 3;

/// Minimum time between two renewals, even if the store grants a shorter ttl.
const EVERY_MIN: Duration = Duration::from_millis(20);

/// The state of one lease, from the request until the end.
///
/// ```text
/// Asked ──▶ Waiting ──▶ Holding ──▶ Released
///   └──────────┴───────────┴──────▶ Lost
/// ```
///
/// `Lost` and `Released` are final.
#[derive(Debug)]
pub(crate) struct LeaseState {
    schedule: RenewalSchedule,
    state: State,
    /// The ticket's number in the store's last answer.
    number: u64,
    /// When the lease expires for its owner.
    deadline: Time,
    /// When the first answered join was sent.
    asked: Time,
    /// When the owner learned that it holds.
    since: Time,
    /// When the lock was lost or released.
    ended: Time,
    /// When the maximum time to hold is over.
    enough: Time,
    /// When the next renewal is due.
    due: Time,
    /// The time between two renewals, for the granted ttl.
    every: Duration,
    /// Number of renewals that failed in a row.
    failed: u32,
    /// The error of the last of them.
    trouble: Option<Error>,
    /// When the first of them failed.
    troubled: Time,
    /// A break asked the owner to leave.
    asked_to_leave: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Asked,
    Waiting,
    Holding(u64),
    Lost(Loss),
    Released,
}

impl LeaseState {
    pub(crate) fn new(schedule: RenewalSchedule) -> Self {
        Self {
            every: schedule.every,
            schedule,
            state: State::Asked,
            number: 0,
            deadline: Time::NEVER,
            asked: Time::NEVER,
            since: Time::NEVER,
            ended: Time::NEVER,
            enough: Time::NEVER,
            due: Time::NEVER,
            failed: 0,
            trouble: None,
            troubled: Time::NEVER,
            asked_to_leave: false,
        }
    }

    /// Applies the answer to a join or renewal that was sent at `sent`.
    pub(crate) fn apply(&mut self, sent: Time, now: Time, answer: Result<Option<Place>>) {
        self.judge(now);
        if self.is_over() {
            return;
        }
        match answer {
            Ok(Some(place)) => self.apply_place(sent, now, place),
            Ok(None) if now.has_reached(self.deadline) => self.lose(now, Loss::Expired),
            Ok(None) => self.lose(now, Loss::Broken),
            Err(error) => match error.loss() {
                Some(loss) => self.lose(now, loss),
                None => self.apply_failure(now, error),
            },
        }
    }

    /// Applies a notification that the ticket is served. The ttl still runs from the last renewal.
    pub(crate) fn apply_served(&mut self, now: Time, number: u64) {
        self.judge(now);
        let endless = self.deadline == Time::NEVER;
        if endless && self.schedule.leased {
            // The granted ttl is unknown: renew first.
            self.due = now;
        } else if matches!(self.state, State::Waiting) && !now.has_reached(self.deadline) {
            self.begin(now, number);
        }
    }

    /// Applies the time: the lease may have expired.
    pub(crate) fn judge(&mut self, now: Time) -> State {
        if let State::Holding(_) = self.state {
            if now.has_reached(self.enough) {
                self.lose(now, Loss::HeldTooLong);
            } else if now.has_reached(self.deadline) {
                let failed = self.failed > 0;
                self.lose(now, if failed { Loss::Unreachable } else { Loss::Expired });
            }
        }
        self.state
    }

    /// Ends the lease. Returns an error if it was lost before.
    pub(crate) fn release(&mut self, now: Time) -> Result<()> {
        if let State::Lost(loss) = self.judge(now) {
            return Err(Error::lost(loss));
        }
        self.state = State::Released;
        self.ended = now;
        Ok(())
    }

    /// Marks the lease as lost, because its locks were closed.
    pub(crate) fn close(&mut self, now: Time) {
        self.judge(now);
        if !self.is_over() {
            self.lose(now, Loss::Closed);
        }
    }

    /// The error to give up with: the store refused, or did not answer for a whole ttl. If the ttl
    /// was over before a request failed, the process was suspended, and the store still gets its
    /// time to answer.
    pub(crate) fn reason_to_give_up(&self, now: Time) -> Option<&Error> {
        let silent = match self.deadline {
            Time::NEVER => self.failed > SILENCES_MAX,
            deadline => {
                now.has_reached(deadline)
                    && now.has_reached(self.troubled.plus(self.schedule.every))
            }
        };
        self.trouble.as_ref().filter(|trouble| silent || !trouble.is_retryable())
    }

    /// When the time has to be applied next.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        match self.state {
            State::Lost(_) | State::Released => None,
            State::Holding(_) => Some(self.due.min(self.deadline).min(self.enough)),
            State::Asked | State::Waiting if now.has_reached(self.deadline) => Some(self.due),
            State::Asked | State::Waiting => Some(self.due.min(self.deadline)),
        }
    }

    /// A renewal is in flight: no other is due until its outcome is known.
    pub(crate) fn begin_renewal(&mut self) {
        self.due = Time::NEVER;
    }

    /// Whether a renewal is due.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        !self.is_over() && now.has_reached(self.due)
    }

    /// The time until the lease expires without another renewal. Zero once it is over. `None`: it
    /// does not expire.
    pub(crate) fn remaining(&self, now: Time) -> Option<Duration> {
        if self.is_over() {
            return Some(Duration::ZERO);
        }
        let end = self.deadline.min(self.enough);
        (end != Time::NEVER).then(|| now.until(end))
    }

    /// The time that is left of a held lease. `None`: it is not held, or does not expire.
    pub(crate) fn slack(&self, now: Time) -> Option<Duration> {
        let expires = matches!(self.state, State::Holding(_)) && self.deadline != Time::NEVER;
        (expires && !now.has_reached(self.deadline)).then(|| now.until(self.deadline))
    }

    /// Whether the lock is lost or released.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Lost(_) | State::Released)
    }

    /// Whether only the owner renews it.
    pub(crate) fn is_renewed_manually(&self) -> bool {
        self.schedule.manual_renewal && matches!(self.state, State::Holding(_))
    }

    /// Number of renewals that failed since the last success.
    pub(crate) fn failed(&self) -> u32 {
        self.failed
    }

    /// The error of the last renewal, if more than `failed` have failed.
    pub(crate) fn trouble_since(&self, failed: u32) -> Option<Error> {
        self.trouble.clone().filter(|_| self.failed > failed)
    }

    /// The error of the last renewal, if none has succeeded since.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.trouble.clone()
    }

    /// Whether it was lost because a break asked the owner to leave.
    pub(crate) fn was_asked_to_leave(&self) -> bool {
        self.asked_to_leave
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Time from the join to the moment at which the owner knew that it holds.
    pub(crate) fn waited(&self) -> Duration {
        self.asked.until(self.since)
    }

    /// Time from the moment at which the owner knew that it holds to the end of the lease.
    pub(crate) fn held_for(&self) -> Duration {
        self.since.until(self.ended)
    }

    pub(crate) fn schedule(&self) -> &RenewalSchedule {
        &self.schedule
    }

    fn apply_place(&mut self, sent: Time, now: Time, place: Place) {
        if place.leaving || self.is_contradicted(sent, place) {
            self.asked_to_leave = place.leaving;
            self.lose(now, Loss::Broken);
            return;
        }
        self.number = place.number;
        if let Some(life) = place.life {
            let confirmed = deadline(sent, life, &self.schedule.margin);
            let known = self.deadline != Time::NEVER;
            self.deadline = if known { self.deadline.max(confirmed) } else { confirmed };
            // The store may grant a shorter ttl than requested. Two renewals may fail within it,
            // too.
            let granted = usable(life, &self.schedule.margin) * 2 / 5;
            self.every = self.schedule.every.min(granted.max(EVERY_MIN));
        }
        self.failed = 0;
        self.trouble = None;
        self.due = self.next_sign(sent, now, &place);
        self.stop_if_manual();
        if matches!(self.state, State::Asked) {
            self.state = State::Waiting;
            self.asked = sent;
        }
        if place.state == TicketState::Holding {
            self.apply_served(now, place.number);
        }
    }

    /// Whether an answer contradicts that the ticket holds, as after a loss of data. An answer to a
    /// request that was sent before the ticket was served contradicts nothing.
    fn is_contradicted(&self, sent: Time, place: Place) -> bool {
        let State::Holding(number) = self.state else { return false };
        let otherwise = place.state == TicketState::Waiting || place.number != number;
        otherwise && sent.has_reached(self.since)
    }

    fn apply_failure(&mut self, now: Time, error: Error) {
        if self.failed == 0 {
            self.troubled = now;
        }
        self.failed += 1;
        self.trouble = Some(error);
        self.due = now.plus(self.every / 4);
        self.stop_if_manual();
    }

    fn next_sign(&self, sent: Time, now: Time, place: &Place) -> Time {
        let waiting = place.state == TicketState::Waiting;
        let due = sent.plus(jittered(self.every, sent));
        match place.look {
            Some(look) if waiting => due.min(now.plus(look)),
            _ => due,
        }
    }

    fn begin(&mut self, now: Time, number: u64) {
        self.state = State::Holding(number);
        self.since = now;
        self.stop_if_manual();
        if let Some(max_hold) = self.schedule.max_hold {
            self.enough = now.plus(max_hold);
        }
    }

    /// Turns automatic renewal off if only the owner renews.
    fn stop_if_manual(&mut self) {
        if self.is_renewed_manually() {
            self.due = Time::NEVER;
        }
    }

    fn lose(&mut self, now: Time, loss: Loss) {
        self.state = State::Lost(loss);
        self.ended = now;
    }
}

/// Up to a tenth sooner, so that leases that began together are not always renewed together.
fn jittered(every: Duration, seed: Time) -> Duration {
    let spread = seed.boot_ns.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
    let spread = u32::try_from(spread).unwrap_or(0);
    every.saturating_sub(every / 10_240 * spread)
}

#[cfg(test)]
mod tests;
