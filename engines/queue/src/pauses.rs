//! Pauses between tries of one verb, of which others were quicker: the first is none, the others grow and are uneven, so that
//! clients who were at odds once do not meet again.

use std::time::Duration;

use tenure_core::Host;

/// The shortest that is one.
const SHORTEST: Duration = Duration::from_millis(1);
/// They grow no further.
const LONGEST: Duration = Duration::from_millis(32);

/// The pauses of one verb.
pub(crate) struct Pauses<'a> {
    host: &'a dyn Host,
    next: Duration,
}

impl<'a> Pauses<'a> {
    pub(crate) fn on(host: &'a dyn Host) -> Self {
        Self { host, next: Duration::ZERO }
    }

    /// Waits until the next try may be made.
    pub(crate) async fn rest(&mut self) {
        if self.next.is_zero() {
            self.next = SHORTEST;
            return;
        }
        self.host.sleep(uneven(self.next, self.host.random())).await;
        self.next = (self.next * 2).min(LONGEST);
    }
}

/// Between a half of it and the whole.
fn uneven(pause: Duration, random: u64) -> Duration {
    let part = u32::try_from(random % 512).unwrap_or(0);
    pause / 2 + pause / 1024 * part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_at_least_half_and_never_longer_than_it_may_be() {
        for random in [0, 1, 511, 512, u64::MAX] {
            let pause = uneven(LONGEST, random);
            assert!(LONGEST / 2 <= pause && pause < LONGEST, "{pause:?}");
        }
        assert_ne!(uneven(LONGEST, 0), uneven(LONGEST, 511));
    }
}
