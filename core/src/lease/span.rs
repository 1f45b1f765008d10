//! Durations in messages: exact, as people write them.

use std::time::Duration;

const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];

/// A duration for messages: `250ms`, `1.5s`, `1h30m`, `366d`. Nothing is rounded, because people
/// copy the values.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_core::toolbox::shown;
///
/// assert_eq!(shown(Duration::from_secs(5400)), "1h30m");
/// ```
#[must_use]
pub fn shown(span: Duration) -> String {
    let seconds = span.as_secs();
    if span.is_zero() {
        return "0s".into();
    }
    if seconds < 60 || span.subsec_nanos() > 0 {
        return format!("{span:?}");
    }
    let mut rest = seconds;
    let parts = UNITS.iter().map(|(unit, name)| {
        let count = rest / unit;
        rest %= unit;
        if count == 0 { String::new() } else { format!("{count}{name}") }
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::shown;
    use std::time::Duration;

    #[test]
    fn a_span_is_shown_as_people_write_it() {
        for (ms, text) in [
            (0, "0s"),
            (320, "320ms"),
            (1_500, "1.5s"),
            (60_000, "1m"),
            (61_500, "61.5s"),
            (5_400_000, "1h30m"),
            (863_913_600_000, "9999d"),
            (90_061_000, "1d1h1m1s"),
        ] {
            assert_eq!(shown(Duration::from_millis(ms)), text);
        }
    }
}
