//! Times in the format of RFC 3339.

/// Formats microseconds since 1970 as `2026-01-31T23:59:59.000001Z`.
pub fn rfc3339(at_us: u64) -> String {
    format!("{}.{:06}Z", to_the_second(at_us / 1_000_000), at_us % 1_000_000)
}

/// Formats seconds since 1970 as `2026-01-31T23:59:59Z`.
pub fn rfc3339_seconds(at_s: u64) -> String {
    to_the_second(at_s) + "Z"
}

fn to_the_second(at_s: u64) -> String {
    let (days, seconds) = (at_s / 86_400, at_s % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Returns the year, month and day that begin `days` days after 1970-01-01. The calculation lets a
/// year begin in March, so that the leap day is its last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + later, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339_has_them() {
        for (at_us, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_001, "2000-02-29T00:00:00.000001Z"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999999Z"),
            (1_709_251_200_000_000, "2024-03-01T00:00:00.000000Z"),
            (1_767_225_599_123_456, "2025-12-31T23:59:59.123456Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
        ] {
            assert_eq!(rfc3339(at_us), text);
        }
        assert_eq!(rfc3339_seconds(951_782_400), "2000-02-29T00:00:00Z");
    }
}
