//! The answered signs of life of a session. A server passes them on to the leader of its ensemble,
//! up to half a tick after its answer. If the server dies before that, the leader never gets them.

use std::collections::VecDeque;
use std::time::Duration;

use tenure_core::Time;

/// The latest last. The leader knows the first.
pub(crate) struct Signs(VecDeque<Sign>);

/// A sign that was answered. The server received it between the two times.
struct Sign {
    sent: Time,
    answered: Time,
}

impl Signs {
    /// Returns the signs of a session that is requested now. The leader learns of that by itself.
    pub(crate) fn since(begun: Time) -> Self {
        Self([Sign { sent: begun, answered: begun }].into())
    }

    /// Notes a sign that was answered at `now`. Returns how long before it the last sign was sent
    /// that the leader knows: it was answered at least `older` before this one was sent. The server
    /// may have received a slow sign at the end of that time.
    pub(crate) fn answered(&mut self, sent: Time, now: Time, older: Duration) -> Duration {
        if self.0.back().is_some_and(|last| sent.has_reached(last.sent)) {
            self.0.push_back(Sign { sent, answered: now });
        }
        while self.0.get(1).is_some_and(|next| next.answered.until(sent) >= older) {
            self.0.pop_front();
        }
        self.0.front().map_or(Duration::ZERO, |heard| heard.sent.until_last(sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time { boot_ns: seconds * 1_000_000_000, raw_ns: seconds * 1_000_000_000 }
    }

    #[test]
    fn a_sign_is_known_to_the_leader_once_one_is_answered_that_was_sent_long_enough_after_it() {
        let (mut signs, older) = (Signs::since(at(0)), Duration::from_secs(3));
        for (sent, before) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 3), (15, 10), (16, 11), (18, 3)]
        {
            let answered = signs.answered(at(sent), at(sent), older);
            assert_eq!(answered, Duration::from_secs(before), "sent at {sent}");
        }
        let late = signs.answered(at(17), at(18), older);
        assert_eq!(late, Duration::from_secs(2), "a late answer");
        assert!(signs.0.len() <= 4, "nothing old is kept");
    }

    #[test]
    fn a_sign_that_took_long_may_have_been_heard_only_when_it_was_answered() {
        let (mut signs, older) = (Signs::since(at(0)), Duration::from_secs(3));
        signs.answered(at(1), at(1), older);
        // It may have been received at 8, just after the leader asked.
        signs.answered(at(5), at(8), older);
        for (sent, before) in [(9, 8), (10, 9), (11, 6)] {
            let answered = signs.answered(at(sent), at(sent), older);
            assert_eq!(answered, Duration::from_secs(before), "sent at {sent}");
        }
    }

    #[test]
    fn the_time_that_a_machine_slept_is_counted_off() {
        let (mut signs, older) = (Signs::since(at(0)), Duration::from_secs(10));
        for sent in [7, 14, 21, 28] {
            signs.answered(at(sent), at(sent), older);
        }
        // It slept for 20 s, which one clock does not count.
        let sent = Time { boot_ns: 48_100_000_000, ..at(28) };
        let heard = sent.boot_ns - at(14).boot_ns;
        assert_eq!(signs.answered(sent, sent, older), Duration::from_nanos(heard));
    }
}
