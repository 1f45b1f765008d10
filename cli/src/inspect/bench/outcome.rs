//! The outcome of a case: counts and times.

use std::time::Duration;

use crate::inspect::json::Object;

/// Times in nanoseconds, and further numbers.
pub(super) struct Outcome {
    case: &'static str,
    took: Duration,
    sorted_ns: Vec<u64>,
    more: Vec<(&'static str, u64)>,
}

impl Outcome {
    pub(super) fn new(case: &'static str, took: Duration, mut times_ns: Vec<u64>) -> Self {
        times_ns.sort_unstable();
        Self { case, took, sorted_ns: times_ns, more: Vec::new() }
    }

    /// Adds a further number.
    pub(super) fn and(mut self, name: &'static str, value: u64) -> Self {
        self.more.push((name, value));
        self
    }

    /// Writes the documented fields first.
    pub(super) fn object(&self) -> String {
        let mut object = Object::new()
            .text("case", self.case)
            .plain("ops_per_s", format!("{:.1}", self.per_second()))
            .plain("p50_us", format!("{:.1}", self.quantile_us(50)))
            .plain("p99_us", format!("{:.1}", self.quantile_us(99)))
            .plain("ops", self.sorted_ns.len());
        for (name, value) in &self.more {
            object = object.plain(name, *value);
        }
        object.line()
    }

    pub(super) fn row(&self) -> [String; 6] {
        let more: Vec<_> = self
            .more
            .iter()
            .map(|(name, value)| match name.strip_suffix("_us") {
                Some(name) => format!("{name} {}", time(as_f64(*value))),
                None => format!("{name} {value}"),
            })
            .collect();
        [
            self.case.into(),
            format!("{:.0}", self.per_second()),
            time(self.quantile_us(50)),
            time(self.quantile_us(99)),
            self.sorted_ns.len().to_string(),
            more.join(", "),
        ]
    }

    fn per_second(&self) -> f64 {
        let count = as_f64(u64::try_from(self.sorted_ns.len()).unwrap_or(u64::MAX));
        count / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn quantile_us(&self, percent: usize) -> f64 {
        let last = self.sorted_ns.len().saturating_sub(1);
        self.sorted_ns.get(last * percent / 100).map_or(0.0, |ns| as_f64(*ns) / 1_000.0)
    }
}

fn time(us: f64) -> String {
    format!("{:.1?}", Duration::from_secs_f64(us / 1_000_000.0))
}

#[allow(clippy::cast_precision_loss, reason = "the digits beyond 2^53 are not shown")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promised_fields_come_first() {
        let times = (1..=100).map(|us| us * 1_000).collect();
        let outcome = Outcome::new("free", Duration::from_secs(2), times).and("least", 3);
        assert_eq!(
            outcome.object(),
            "{\"case\":\"free\",\"ops_per_s\":50.0,\"p50_us\":50.0,\"p99_us\":99.0,\"ops\":100,\"least\":3}\n"
        );
    }

    #[test]
    fn no_measurement_gives_zeros() {
        let outcome = Outcome::new("free", Duration::ZERO, Vec::new());
        assert!(outcome.object().contains("\"ops_per_s\":0.0,\"p50_us\":0.0"));
    }
}
