//! The terms on which a lock is asked for, and whether they can work.

use std::sync::Arc;
use std::time::Duration;

use crate::deadline::{Caution, usable};
use crate::ticket::NOTE_BYTES_MAX;
use crate::{Error, Liveness, Profile, Result};

/// How long a ticket lives without a sign of life, unless its owner says otherwise.
pub const TTL_DEFAULT: Duration = Duration::from_secs(30);
/// The longest ttl.
pub const TTL_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

const DRIFT_PPM_DEFAULT: u32 = 10_000;
const MARGIN_MIN: Duration = Duration::from_millis(50);

/// What a caller chose; what it left open follows from the ttl.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) ttl: Duration,
    pub(crate) renew_every: Option<Duration>,
    pub(crate) margin: Option<Duration>,
    pub(crate) drift_ppm: u32,
    pub(crate) by_hand: bool,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) note: Option<Arc<str>>,
}

/// Terms that can work, with nothing left open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rhythm {
    pub(crate) caution: Caution,
    /// From one sign of life to the next.
    pub(crate) every: Duration,
    /// The owner renews by hand.
    pub(crate) by_hand: bool,
    pub(crate) max_hold: Option<Duration>,
    /// Lives end in this store: what was told no life is not believed to have one.
    pub(crate) leased: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            ttl: TTL_DEFAULT,
            renew_every: None,
            margin: None,
            drift_ppm: DRIFT_PPM_DEFAULT,
            by_hand: false,
            max_hold: None,
            note: None,
        }
    }
}

impl Terms {
    /// Refuses terms that cannot keep a lock.
    pub(crate) fn rhythm(&self, profile: &Profile) -> Result<Rhythm> {
        if self.ttl > TTL_MAX {
            return Err(Error::invalid(format!(
                "a ttl of {:?} is too long: at most {} days are allowed",
                self.ttl,
                TTL_MAX.as_secs() / 86_400
            )));
        }
        if self.drift_ppm >= 1_000_000 {
            return Err(Error::invalid(format!(
                "a clock drift of {} ppm leaves no time at all: name less than 1000000",
                self.drift_ppm
            )));
        }
        if let Some(note) = self.note.as_ref() {
            check_note(note)?;
        }
        if self.max_hold == Some(Duration::ZERO) {
            return Err(Error::invalid("a longest hold of 0 would hold nothing"));
        }
        let caution = Caution {
            rounding: profile.rounding,
            drift_ppm: self.drift_ppm,
            margin: self.margin.unwrap_or(MARGIN_MIN.max(self.ttl / 100)),
        };
        let every = self.renew_every.unwrap_or(self.ttl / 3);
        self.leave_room(every, &caution)?;
        let leased = profile.liveness != Liveness::Kernel;
        Ok(Rhythm { caution, every, by_hand: self.by_hand, max_hold: self.max_hold, leased })
    }

    /// Two renewals may fail, and half a period is left for the third.
    fn leave_room(&self, every: Duration, caution: &Caution) -> Result<()> {
        let usable = usable(self.ttl, caution);
        if usable.is_zero() {
            return Err(Error::invalid(format!(
                "a ttl of {:?} is too short: rounding, clock drift and margin leave nothing of it",
                self.ttl
            )));
        }
        if self.by_hand {
            return Ok(());
        }
        if every.is_zero() || every.saturating_mul(5) / 2 > usable {
            return Err(Error::invalid(format!(
                "a ttl of {:?} renewed every {every:?} leaves no room for two failed renewals: \
                 {usable:?} of it can be used; make the ttl longer, or renew more often",
                self.ttl
            )));
        }
        Ok(())
    }
}

pub(crate) fn check_note(note: &str) -> Result<()> {
    if note.len() > NOTE_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a note of {} bytes is too long: at most {NOTE_BYTES_MAX} bytes are allowed",
            note.len()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock as _, Kind, Memory, engine::Engine as _};

    fn refused(terms: &Terms) -> String {
        let error = terms.rhythm(&Memory::new().profile()).unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid);
        error.to_string()
    }

    fn of(ttl: Duration) -> Terms {
        Terms { ttl, ..Terms::default() }
    }

    #[test]
    fn the_defaults_work() {
        let exact = Profile { rounding: Duration::ZERO, ..Memory::new().profile() };
        let rhythm = Terms::default().rhythm(&exact).unwrap();
        assert_eq!(rhythm.every, Duration::from_secs(10));
        assert_eq!(rhythm.caution.margin, Duration::from_millis(300));
        let now = crate::SystemClock.now();
        let deadline = crate::deadline::deadline(now, TTL_DEFAULT, &rhythm.caution);
        assert_eq!(now.until(deadline), Duration::from_millis(29_400));
    }

    #[test]
    fn a_ttl_without_room_for_two_failed_renewals_is_refused() {
        assert!(refused(&of(Duration::ZERO)).contains("too short"));
        assert!(refused(&of(Duration::from_nanos(1))).contains("too short"));
        assert!(refused(&of(Duration::from_millis(200))).contains("two failed renewals"));
        assert!(refused(&of(Duration::from_secs(i64::MAX.unsigned_abs()))).contains("too long"));
        let lazy = Terms { renew_every: Some(Duration::from_secs(15)), ..Terms::default() };
        assert!(refused(&lazy).contains("two failed renewals"));
        let frantic = Terms { renew_every: Some(Duration::ZERO), ..Terms::default() };
        assert!(refused(&frantic).contains("two failed renewals"));
    }

    #[test]
    fn a_lease_renewed_by_hand_needs_no_room() {
        let terms = Terms { by_hand: true, ..of(Duration::from_millis(200)) };
        assert!(terms.rhythm(&Memory::new().profile()).is_ok());
    }
}
