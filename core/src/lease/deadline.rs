//! The deadline of a lease, which counts from the moment before the request was sent.

use std::time::Duration;

use crate::Time;

/// The allowance for the store's rounding, clock drift and the holder's own delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SafetyMargin {
    /// Maximum by which the store shortens a ttl through rounding.
    pub(crate) rounding: Duration,
    /// How much faster the store's clock may run than this one, in parts per million.
    pub(crate) drift_ppm: u32,
    /// The time before the expiry at which the holder stops. `None`: a part of the ttl.
    pub(crate) margin: Option<Duration>,
}

const NANOS: u128 = 1_000_000_000;
/// Minimum of the default margin.
const MARGIN_MIN: Duration = Duration::from_millis(50);

impl SafetyMargin {
    /// The margin for a ttl that the store granted, which may be shorter than requested.
    fn margin(&self, life: Duration) -> Duration {
        self.margin.unwrap_or(MARGIN_MIN.max(life / 100))
    }
}

/// `D = s + (T − q)(1 − ρ) − m`, where `sent` was read before the request was sent and `life` is
/// the ttl that the store confirmed. Never later than that, and never before `sent`.
pub(crate) fn deadline(sent: Time, life: Duration, margin: &SafetyMargin) -> Time {
    sent.plus(usable(life, margin))
}

/// The part of a ttl that the holder uses: `(T − q)(1 − ρ) − m`.
pub(crate) fn usable(life: Duration, margin: &SafetyMargin) -> Duration {
    let counted = life.saturating_sub(margin.rounding);
    let drift = counted.as_nanos().saturating_mul(u128::from(margin.drift_ppm)).div_ceil(1_000_000);
    let seconds = u64::try_from(drift / NANOS).unwrap_or(u64::MAX);
    let drift = Duration::new(seconds, u32::try_from(drift % NANOS).unwrap_or(0));
    counted.saturating_sub(drift).saturating_sub(margin.margin(life))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn margin() -> impl Strategy<Value = SafetyMargin> {
        let parts = (any::<u32>(), 0..=1_000_000_u32, any::<Option<u32>>());
        parts.prop_map(|(rounding, drift_ppm, margin)| SafetyMargin {
            rounding: Duration::from_micros(rounding.into()),
            drift_ppm,
            margin: margin.map(|margin| Duration::from_micros(margin.into())),
        })
    }

    fn time() -> impl Strategy<Value = Time> {
        (any::<u64>(), any::<u64>()).prop_map(|(boot_ns, raw_ns)| Time { boot_ns, raw_ns })
    }

    fn life() -> impl Strategy<Value = Duration> {
        (any::<u64>(), 0..1_000_000_000_u32).prop_map(|(secs, nanos)| Duration::new(secs, nanos))
    }

    proptest! {
        #[test]
        fn never_later_than_allowed(sent in time(), life in life(), margin in margin()) {
            let deadline = deadline(sent, life, &margin);
            let allowed = life.saturating_sub(margin.rounding).as_nanos();
            let allowed = allowed * u128::from(1_000_000 - margin.drift_ppm) / 1_000_000;
            let allowed = allowed.saturating_sub(margin.margin(life).as_nanos());
            prop_assert!(u128::from(deadline.boot_ns - sent.boot_ns) <= allowed);
            prop_assert!(u128::from(deadline.raw_ns - sent.raw_ns) <= allowed);
        }

        #[test]
        fn never_before_it_was_sent(sent in time(), life in life(), margin in margin()) {
            let deadline = deadline(sent, life, &margin);
            prop_assert!(deadline.boot_ns >= sent.boot_ns && deadline.raw_ns >= sent.raw_ns);
        }

        #[test]
        fn sent_later_is_due_no_sooner(
            sent in time(), later in any::<u32>(), life in life(), margin in margin()
        ) {
            let later = sent.plus(Duration::from_nanos(later.into()));
            let (first, second) = (deadline(sent, life, &margin), deadline(later, life, &margin));
            prop_assert_eq!(second.max(first), second);
        }

        #[test]
        fn a_longer_life_is_due_no_sooner(
            sent in time(), life in life(), more in any::<u32>(), margin in margin()
        ) {
            let longer = life.saturating_add(Duration::from_nanos(more.into()));
            let (first, second) = (deadline(sent, life, &margin), deadline(sent, longer, &margin));
            prop_assert_eq!(second.max(first), second);
        }

        #[test]
        fn more_caution_is_due_no_later(sent in time(), life in life(), margin in margin()) {
            let none = Some(Duration::ZERO);
            let careless = SafetyMargin { rounding: Duration::ZERO, drift_ppm: 0, margin: none };
            let bold = deadline(sent, life, &careless);
            prop_assert_eq!(deadline(sent, life, &margin).max(bold), bold);
        }
    }
}
