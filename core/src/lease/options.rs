//! The options of a lock, and whether they can work together.

use std::sync::Arc;
use std::time::Duration;

use crate::lease::deadline::{SafetyMargin, usable};
use crate::lease::span::shown;
use crate::{Error, Guarantees, Liveness, Result, TTL_DEFAULT, TTL_MAX};

/// How much faster the store's clock may run than this machine's: one percent.
const DRIFT_PPM: u32 = 10_000;

/// Shortest time between two renewals. With less, the renewals of one lock keep a core busy.
const RENEW_EVERY_MIN: Duration = Duration::from_millis(1);

/// The options that a caller chose. The ttl decides the others.
#[derive(Clone, Debug)]
pub(crate) struct LockOptions {
    pub(crate) ttl: Duration,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) manual_renewal: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) note: Option<Arc<str>>,
    /// The name of the election in metrics.
    pub(crate) election: Option<&'static str>,
}

/// Checked options, with all defaults filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RenewalSchedule {
    pub(crate) margin: SafetyMargin,
    /// The time between two renewals.
    pub(crate) every: Duration,
    /// Only the owner renews.
    pub(crate) manual_renewal: bool,
    pub(crate) max_hold: Option<Duration>,
    /// Whether tickets expire in this store. If so, a ticket without a confirmed ttl counts as
    /// expired.
    pub(crate) leased: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        Self {
            ttl: TTL_DEFAULT,
            renew_every: None,
            manual_renewal: false,
            max_hold: None,
            note: None,
            election: None,
        }
    }
}

impl LockOptions {
    /// Checks the options, and refuses those that cannot keep a lock.
    pub(crate) fn schedule(&self, guarantees: &Guarantees) -> Result<RenewalSchedule> {
        if self.ttl > TTL_MAX {
            return Err(Error::invalid(format!(
                "a ttl of {} is too long: at most {} is allowed",
                shown(self.ttl),
                shown(TTL_MAX)
            )));
        }
        if self.max_hold == Some(Duration::ZERO) {
            return Err(Error::invalid("the maximum time to hold must not be zero"));
        }
        self.leave_room(guarantees.rounding)?;
        Ok(RenewalSchedule {
            margin: margin(guarantees.rounding),
            every: self.every(self.ttl),
            manual_renewal: self.manual_renewal,
            max_hold: self.max_hold,
            leased: guarantees.liveness != Liveness::Kernel,
        })
    }

    fn every(&self, ttl: Duration) -> Duration {
        // Under manual renewal only a waiting ticket is renewed in the background.
        self.renew_every.filter(|_| !self.manual_renewal).unwrap_or(ttl / 3)
    }

    /// Refuses a ttl without time for two failed renewals, with the way out.
    fn leave_room(&self, rounding: Duration) -> Result<()> {
        if self.has_room(self.ttl, rounding) {
            return Ok(());
        }
        let most = whole_millis(usable(self.ttl, &margin(rounding)) * 2 / 5);
        let every = self.renew_every.filter(|_| !self.manual_renewal);
        if every.is_some_and(|every| every < RENEW_EVERY_MIN) {
            return Err(Error::invalid(format!(
                "the time between two renewals must be at least {}",
                shown(RENEW_EVERY_MIN)
            )));
        }
        let ttl = shown(self.ttl);
        Err(Error::invalid(match (self.ttl_min(rounding).map(shown), every.map(shown)) {
            (Some(least), Some(every)) if !most.is_zero() => format!(
                "a ttl of {ttl} renewed every {every} leaves no room for two failed renewals: \
                 use a ttl of at least {least}, or renew every {}",
                shown(most)
            ),
            (Some(least), _) if self.manual_renewal => format!(
                "a ttl of {ttl} is too short for rounding, clock drift and margin: use at least \
                 {least}"
            ),
            (Some(least), _) => format!(
                "a ttl of {ttl} is too short: {least} is the least with room for two failed renewals"
            ),
            (None, _) => format!(
                "a ttl of {ttl} leaves no time for two failed renewals: use a shorter time between renewals"
            ),
        }))
    }

    /// Whether two renewals may fail and half a period is left for the third. Manual renewal needs
    /// none.
    fn has_room(&self, ttl: Duration, rounding: Duration) -> bool {
        let (every, usable) = (self.every(ttl), usable(ttl, &margin(rounding)));
        let is_renewed = every >= RENEW_EVERY_MIN && every.saturating_mul(5) / 2 <= usable;
        !usable.is_zero() && (self.manual_renewal || is_renewed)
    }

    /// The shortest ttl with that time, in whole milliseconds.
    fn ttl_min(&self, rounding: Duration) -> Option<Duration> {
        let has_room = |ms| self.has_room(Duration::from_millis(ms), rounding);
        let (mut short, mut long) = (0, TTL_MAX.as_secs() * 1_000);
        if !has_room(long) {
            return None;
        }
        while long - short > 1 {
            let middle = short.midpoint(long);
            if has_room(middle) {
                long = middle;
            } else {
                short = middle;
            }
        }
        Some(Duration::from_millis(long))
    }
}

fn margin(rounding: Duration) -> SafetyMargin {
    SafetyMargin { rounding, drift_ppm: DRIFT_PPM, margin: None }
}

fn whole_millis(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock as _, Engine as _, ErrorKind, Memory};

    fn refused(options: &LockOptions) -> String {
        let error = options.schedule(&Memory::new().guarantees()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    }

    fn of(ttl: Duration) -> LockOptions {
        LockOptions { ttl, ..LockOptions::default() }
    }

    #[test]
    fn the_defaults_work() {
        let exact = Guarantees { rounding: Duration::ZERO, ..Memory::new().guarantees() };
        let schedule = LockOptions::default().schedule(&exact).unwrap();
        assert_eq!(schedule.every, Duration::from_secs(10));
        let now = crate::SystemClock.now();
        let deadline = crate::lease::deadline::deadline(now, TTL_DEFAULT, &schedule.margin);
        assert_eq!(now.until(deadline), Duration::from_millis(29_400));
    }

    #[test]
    fn a_ttl_without_room_for_two_failed_renewals_is_refused() {
        assert!(refused(&of(Duration::ZERO)).contains("too short"));
        assert!(refused(&of(Duration::from_nanos(1))).contains("too short"));
        assert!(refused(&of(Duration::from_millis(200))).contains("two failed renewals"));
        assert!(refused(&of(Duration::from_secs(i64::MAX.unsigned_abs()))).contains("too long"));
        let lazy =
            LockOptions { renew_every: Some(Duration::from_secs(15)), ..LockOptions::default() };
        assert!(refused(&lazy).contains("two failed renewals"));
        for frantic in [Duration::ZERO, Duration::from_micros(999)] {
            let frantic = LockOptions { renew_every: Some(frantic), ..LockOptions::default() };
            assert!(refused(&frantic).contains("must be at least 1ms"));
        }
        let rare = LockOptions { renew_every: Some(TTL_MAX), ..LockOptions::default() };
        assert!(refused(&rare).contains("use a shorter time between renewals"));
    }

    #[test]
    fn a_refusal_names_what_works() {
        let millis = Duration::from_millis;
        let named = |options: &LockOptions| {
            let sentence = refused(options);
            let words = sentence.split([' ', ',']).filter(|word| word.ends_with("ms"));
            words.map(|word| millis(word[..word.len() - 2].parse().unwrap())).collect::<Vec<_>>()
        };
        let less = |duration: Duration| duration.checked_sub(millis(1)).unwrap();
        let works = |options: &LockOptions| options.schedule(&Memory::new().guarantees()).is_ok();
        for options in [of(millis(200)), LockOptions { manual_renewal: true, ..of(millis(20)) }] {
            let [ttl, least] = named(&options)[..] else { panic!("{}", refused(&options)) };
            assert_eq!(ttl, options.ttl);
            assert!(works(&LockOptions { ttl: least, ..options.clone() }));
            assert!(!works(&LockOptions { ttl: less(least), ..options }));
        }
        let lazy = LockOptions { renew_every: Some(millis(350)), ..of(millis(900)) };
        let [_, _, least, every] = named(&lazy)[..] else { panic!("{}", refused(&lazy)) };
        assert!(works(&LockOptions { ttl: least, ..lazy.clone() }));
        assert!(!works(&LockOptions { ttl: less(least), ..lazy.clone() }));
        assert!(works(&LockOptions { renew_every: Some(every), ..lazy.clone() }));
        assert!(!works(&LockOptions { renew_every: Some(every + millis(1)), ..lazy }));
    }

    #[test]
    fn a_ttl_may_be_as_long_as_a_year() {
        assert_eq!(TTL_MAX.as_secs(), 31_622_400);
        assert!(of(TTL_MAX).schedule(&Memory::new().guarantees()).is_ok());
        assert!(refused(&of(TTL_MAX + Duration::from_nanos(1))).contains("too long"));
    }

    #[test]
    fn only_locks_of_the_kernel_have_no_lease() {
        let leased = |liveness| {
            let guarantees = Guarantees { liveness, ..Memory::new().guarantees() };
            LockOptions::default().schedule(&guarantees).unwrap().leased
        };
        assert!(leased(Liveness::Lease) && leased(Liveness::Session));
        assert!(!leased(Liveness::Kernel));
    }

    #[test]
    fn a_refusal_is_of_what_was_chosen() {
        let manual_renewal =
            refused(&LockOptions { manual_renewal: true, ..of(Duration::from_millis(20)) });
        assert!(manual_renewal.contains("rounding, clock drift and margin"), "{manual_renewal}");
        let often = LockOptions {
            renew_every: Some(Duration::from_millis(50)),
            ..of(Duration::from_millis(1))
        };
        let often = refused(&often);
        assert!(!often.contains("renewed every 0s") && !often.contains("or renew"), "{often}");
    }

    #[test]
    fn a_lease_renewed_by_hand_needs_no_room() {
        let options = LockOptions { manual_renewal: true, ..of(Duration::from_millis(200)) };
        assert!(options.schedule(&Memory::new().guarantees()).is_ok());
    }

    #[test]
    fn a_ticket_that_waits_under_manual_renewal_is_renewed_three_times_in_a_ttl() {
        let often = LockOptions {
            manual_renewal: true,
            renew_every: Some(Duration::from_nanos(1)),
            ..LockOptions::default()
        };
        assert_eq!(often.schedule(&Memory::new().guarantees()).unwrap().every, TTL_DEFAULT / 3);
    }
}
