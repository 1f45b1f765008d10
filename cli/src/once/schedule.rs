//! The slots of a cron expression, and the options of a schedule.

use std::str::FromStr;
use std::time::SystemTime;

use jiff::Zoned;

use crate::failure::Failure;

/// A cron expression with five fields.
#[derive(Clone, Debug)]
pub(crate) struct Cron(croner::Cron);

impl FromStr for Cron {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        croner::Cron::from_str(text).map(Self).map_err(|error| error.to_string())
    }
}

impl Cron {
    /// The last time of the schedule that is not after now.
    pub(crate) fn last(&self) -> Result<SystemTime, Failure> {
        self.last_before(&Zoned::now()).map(SystemTime::from)
    }

    fn last_before(&self, now: &Zoned) -> Result<Zoned, Failure> {
        self.0.find_previous_occurrence(now, true).map_err(|_| {
            Failure::usage("the cron expression has no time before now: is its date possible?")
        })
    }
}

/// Parses the number of retries: `fail` is none.
pub(crate) fn retry(text: &str) -> Result<u32, String> {
    if text == "fail" {
        return Ok(0);
    }
    text.parse().map_err(|_| "it is a number of further runs, or `fail` for none".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(expression: &str, now: &str) -> String {
        let cron = Cron::from_str(expression).unwrap();
        cron.last_before(&now.parse().unwrap()).unwrap().timestamp().to_string()
    }

    #[test]
    fn a_slot_is_the_last_time_of_the_schedule() {
        let nightly = "0 3 * * *";
        assert_eq!(last(nightly, "2026-11-28T03:00:00[UTC]"), "2026-11-28T03:00:00Z");
        assert_eq!(last(nightly, "2026-11-28T02:59:59[UTC]"), "2026-11-27T03:00:00Z");
        assert_eq!(last(nightly, "2026-11-28T03:00:59.9[UTC]"), "2026-11-28T03:00:00Z");
        assert_eq!(last("*/15 * * * 1-5", "2026-11-28T12:00[UTC]"), "2026-11-27T23:45:00Z");
        assert_eq!(last("0 0 1 1 *", "2026-11-28T12:00[UTC]"), "2026-01-01T00:00:00Z");
        assert_eq!(last(nightly, "2026-11-28T12:00[Europe/Berlin]"), "2026-11-28T02:00:00Z");
    }

    #[test]
    fn a_slot_of_the_hour_that_a_clock_repeats_is_one_or_two_in_order() {
        let (first, second) = ("2026-10-25T02:45:00+02:00", "2026-10-25T02:45:00+01:00");
        let zoned = |time: &str| format!("{time}[Europe/Berlin]");
        let slots = [first, second].map(|now| last("30 2 * * *", &zoned(now)));
        assert_eq!(slots[0], "2026-10-25T00:30:00Z");
        assert!(slots[1] >= slots[0], "{slots:?}");
    }

    #[test]
    fn an_expression_that_is_wrong_is_refused() {
        for wrong in ["", "3", "61 * * * *", "0 3 * *", "x"] {
            assert!(Cron::from_str(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn retries_are_a_number_or_fail() {
        assert_eq!((retry("fail"), retry("3")), (Ok(0), Ok(3)));
        assert!(retry("never").is_err() && retry("-1").is_err());
    }
}
