//! A hold: what an owner may believe of one ticket, and until when. It is a pure state machine: answers and time are
//! arguments, and it asks nobody. `kept` shares it, `keep` renews by it, and a guard is what a user has of it.

use std::time::Duration;

use crate::lease::deadline::{deadline, usable};
use crate::lease::options::RenewalSchedule;
use crate::{Error, Loss, Place, Result, TicketState, Time};

/// How many renewals may fail in a row before a waiter gives up, where lives have no end.
const SILENCES_MAX: u32 = 3;

/// Signs of life are not sent more often than this, however little life was granted.
const EVERY_MIN: Duration = Duration::from_millis(20);

/// One ticket, from the moment it is asked for until it is over.
///
/// ```text
/// Asked ──▶ Waiting ──▶ Holding ──▶ Released
///   └──────────┴───────────┴──────▶ Lost
/// ```
///
/// There is no way back: what is lost is never un-lost, and what is released is never renewed.
#[derive(Debug)]
pub(crate) struct LeaseState {
    rhythm: RenewalSchedule,
    state: State,
    /// The ticket's number, as the store said last.
    number: u64,
    /// When the owner stops believing that its ticket lives.
    deadline: Time,
    /// When the join was sent that the store answered first.
    asked: Time,
    /// Since when its owner has known that it holds.
    since: Time,
    /// When it was lost or released.
    ended: Time,
    /// When it has been held for long enough.
    enough: Time,
    /// When the next sign of life is due.
    due: Time,
    /// From one sign of life to the next, for the life that was granted.
    every: Duration,
    /// How many signs of life have failed in a row.
    failed: u32,
    /// Why the last one failed.
    trouble: Option<Error>,
    /// When the first of them failed.
    troubled: Time,
    /// Somebody told it to leave.
    told: bool,
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
    pub(crate) fn new(rhythm: RenewalSchedule) -> Self {
        Self {
            every: rhythm.every,
            rhythm,
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
            told: false,
        }
    }

    /// The store answered a join or a renewal that was sent at `sent`.
    pub(crate) fn hear(&mut self, sent: Time, now: Time, answer: Result<Option<Place>>) {
        self.judge(now);
        if self.is_over() {
            return;
        }
        match answer {
            Ok(Some(place)) => self.hear_place(sent, now, place),
            Ok(None) if now.has_reached(self.deadline) => self.lose(now, Loss::Expired),
            Ok(None) => self.lose(now, Loss::Broken),
            Err(error) => match error.loss() {
                Some(loss) => self.lose(now, loss),
                None => self.hear_trouble(now, error),
            },
        }
    }

    /// The store rang: the ticket is served. Its life still runs from its last sign of life.
    pub(crate) fn hear_served(&mut self, now: Time, number: u64) {
        self.judge(now);
        let endless = self.deadline == Time::NEVER;
        if endless && self.rhythm.leased {
            // Nobody has said how long it lives: that has to be asked first.
            self.due = now;
        } else if matches!(self.state, State::Waiting) && !now.has_reached(self.deadline) {
            self.begin(now, number);
        }
    }

    /// Looks at the clock: is it over?
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

    /// The owner gives it back: whether it was still held.
    pub(crate) fn release(&mut self, now: Time) -> Result<()> {
        if let State::Lost(loss) = self.judge(now) {
            return Err(Error::lost(loss));
        }
        self.state = State::Released;
        self.ended = now;
        Ok(())
    }

    /// The locks are closed: the owner stops believing, whatever the store still says.
    pub(crate) fn close(&mut self, now: Time) {
        self.judge(now);
        if !self.is_over() {
            self.lose(now, Loss::Closed);
        }
    }

    /// Why there is no point in waiting on: the store refuses, or has been silent until the ticket's
    /// life was over, or for as long where lives have no end. A life that was over before anything
    /// failed was slept away, and the store has its time to answer.
    pub(crate) fn hopeless(&self, now: Time) -> Option<&Error> {
        let silent = match self.deadline {
            Time::NEVER => self.failed > SILENCES_MAX,
            deadline => {
                now.has_reached(deadline) && now.has_reached(self.troubled.plus(self.rhythm.every))
            }
        };
        self.trouble.as_ref().filter(|trouble| silent || !trouble.is_retryable())
    }

    /// When a clock has to look at it next.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        match self.state {
            State::Lost(_) | State::Released => None,
            State::Holding(_) => Some(self.due.min(self.deadline).min(self.enough)),
            State::Asked | State::Waiting if now.has_reached(self.deadline) => Some(self.due),
            State::Asked | State::Waiting => Some(self.due.min(self.deadline)),
        }
    }

    /// A renewal is on its way: no other is due until its outcome is known.
    pub(crate) fn begin_renewal(&mut self) {
        self.due = Time::NEVER;
    }

    /// Whether a sign of life is due.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        !self.is_over() && now.has_reached(self.due)
    }

    /// How long it can be relied on without another renewal; `None` if the kernel sees to it, and
    /// nothing once it is over.
    pub(crate) fn remaining(&self, now: Time) -> Option<Duration> {
        if self.is_over() {
            return Some(Duration::ZERO);
        }
        let end = self.deadline.min(self.enough);
        (end != Time::NEVER).then(|| now.until(end))
    }

    /// Whether it is lost or released.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Lost(_) | State::Released)
    }

    /// Whether only its owner renews it.
    pub(crate) fn is_kept_by_hand(&self) -> bool {
        self.rhythm.manual_renewal && matches!(self.state, State::Holding(_))
    }

    /// How many renewals have failed since the last that came through.
    pub(crate) fn failed(&self) -> u32 {
        self.failed
    }

    /// Why the last renewal failed, if more have failed than had before.
    pub(crate) fn trouble_since(&self, failed: u32) -> Option<Error> {
        self.trouble.clone().filter(|_| self.failed > failed)
    }

    /// Why the last renewal failed, if none has come through since.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.trouble.clone()
    }

    /// Whether it was lost because somebody told it to leave.
    pub(crate) fn was_told(&self) -> bool {
        self.told
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

    /// Time from the moment at which the owner knew that it holds to the end of the hold.
    pub(crate) fn held_for(&self) -> Duration {
        self.since.until(self.ended)
    }

    pub(crate) fn rhythm(&self) -> &RenewalSchedule {
        &self.rhythm
    }

    fn hear_place(&mut self, sent: Time, now: Time, place: Place) {
        if place.leaving || self.is_contradicted(sent, place) {
            self.told = place.leaving;
            self.lose(now, Loss::Broken);
            return;
        }
        self.number = place.number;
        if let Some(life) = place.life {
            let confirmed = deadline(sent, life, &self.rhythm.caution);
            let known = self.deadline != Time::NEVER;
            self.deadline = if known { self.deadline.max(confirmed) } else { confirmed };
            // A store may grant less than was asked for: two renewals may fail all the same.
            let granted = usable(life, &self.rhythm.caution) * 2 / 5;
            self.every = self.rhythm.every.min(granted.max(EVERY_MIN));
        }
        self.failed = 0;
        self.trouble = None;
        self.due = self.next_sign(sent, now, &place);
        self.keep_hands_off();
        if matches!(self.state, State::Asked) {
            self.state = State::Waiting;
            self.asked = sent;
        }
        if place.state == TicketState::Holding {
            self.hear_served(now, place.number);
        }
    }

    /// A store that lost its data may know the ticket otherwise than it served it. An answer to what
    /// was asked before it was served contradicts nothing.
    fn is_contradicted(&self, sent: Time, place: Place) -> bool {
        let State::Holding(number) = self.state else { return false };
        let otherwise = place.state == TicketState::Waiting || place.number != number;
        otherwise && sent.has_reached(self.since)
    }

    fn hear_trouble(&mut self, now: Time, error: Error) {
        if self.failed == 0 {
            self.troubled = now;
        }
        self.failed += 1;
        self.trouble = Some(error);
        self.due = now.plus(self.every / 4);
        self.keep_hands_off();
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
        self.keep_hands_off();
        if let Some(max_hold) = self.rhythm.max_hold {
            self.enough = now.plus(max_hold);
        }
    }

    /// What its owner renews by hand, nobody else renews.
    fn keep_hands_off(&mut self) {
        if self.is_kept_by_hand() {
            self.due = Time::NEVER;
        }
    }

    fn lose(&mut self, now: Time, loss: Loss) {
        self.state = State::Lost(loss);
        self.ended = now;
    }
}

/// Up to a tenth sooner, so that what was locked together is not renewed together for ever.
fn jittered(every: Duration, seed: Time) -> Duration {
    let spread = seed.boot_ns.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
    let spread = u32::try_from(spread).unwrap_or(0);
    every.saturating_sub(every / 10_240 * spread)
}

#[cfg(test)]
mod tests;
