//! Durations as URLs and the command line write them: `30s`, `1h30m`, `250ms`, `1d`.

use std::time::Duration;

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a duration: whole numbers, each with its unit, or one number of seconds without a unit.
/// Seconds may have a decimal point, as in `flock` and `timeout`.
///
/// # Errors
///
/// A message for the user if the text is not a duration, or the duration is too long.
pub fn parse(text: &str) -> Result<Duration, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if let (true, Ok(seconds)) = (is_number, text.parse()) {
        return Duration::try_from_secs_f64(seconds).map_err(|_| too_long(text));
    }
    let wrong = || format!("`{text}` is no duration: write it like 30s, 5m, 1h30m, 250ms or 1d");
    let mut rest = text;
    let mut total_ms: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let (digits, tail) = split_at(rest, |letter| !letter.is_ascii_digit());
        let (unit, tail) = split_at(tail, |letter| letter.is_ascii_digit());
        let (_, unit_ms) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
        if digits.is_empty() {
            return Err(wrong());
        }
        let part = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(*unit_ms));
        let sum = part.and_then(|part| total_ms.checked_add(part));
        total_ms = sum.ok_or_else(|| too_long(text))?;
        rest = tail;
    }
    Ok(Duration::from_millis(total_ms))
}

fn too_long(text: &str) -> String {
    format!("`{text}` is longer than a duration can be")
}

/// Writes a duration for people, with two units at most: `59s`, `1h30m`.
pub fn brief(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.is_zero() => "0s".into(),
        0 => format!("{}ms", duration.as_millis().max(1)),
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds, 60, "m", 1, "s"),
        3_600..86_400 => two(seconds, 3_600, "h", 60, "m"),
        _ => two(seconds, 86_400, "d", 3_600, "h"),
    }
}

fn two(seconds: u64, large: u64, large_name: &str, small: u64, small_name: &str) -> String {
    let (count, rest) = (seconds / large, seconds % large / small);
    if rest == 0 {
        return format!("{count}{large_name}");
    }
    format!("{count}{large_name}{rest}{small_name}")
}

fn split_at(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, ms) in [
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
            ("1d", 86_400_000),
            ("1m5s250ms", 65_250),
            ("0s", 0),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn garbage_is_refused_with_examples() {
        for text in ["", "s", "soon", "1.5s", "-1s", "1 s", "s1", "1x", "ü"] {
            assert!(parse(text).unwrap_err().contains("write it like 30s"), "{text}");
        }
        assert!(parse("1m30").unwrap_err().contains("write it like 30s"));
        assert!(parse("99999999999999999999d").unwrap_err().contains("longer"));
        assert!(parse("18446744073709551615ms1s").unwrap_err().contains("longer"));
    }

    #[test]
    fn a_bare_number_is_one_of_seconds() {
        for (text, ms) in [("10", 10_000), ("0.5", 500), ("0", 0), ("1m", 60_000)] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", ".", "1.2.3", "-1", "inf", "1e9", "99999999999999999999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_duration_is_shown_briefly() {
        for (ms, text) in [
            (0, "0s"),
            (250, "250ms"),
            (59_999, "59s"),
            (60_000, "1m"),
            (65_000, "1m5s"),
            (5_400_000, "1h30m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(brief(Duration::from_millis(ms)), text);
        }
    }
}
