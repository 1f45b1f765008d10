//! A tally counts what the test runner says it did.

use std::fmt;

/// How many tests passed, failed and were skipped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    failures: Vec<String>,
    last: String,
}

impl Tally {
    /// The tally must not look as if all were well where nothing ran.
    pub(crate) fn of_a_run_that_never_began() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    /// Takes in one line of the runner's output.
    pub(crate) fn hear(&mut self, line: &str) {
        let line = line.trim_end();
        if line.starts_with("test ") && line.ends_with(" ... FAILED") {
            self.failures.push(line.into());
        }
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        let before = self.passed + self.failed + self.skipped;
        for count in counts.split([';', '.']) {
            let Some((number, what)) = count.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
        if counts.starts_with("FAILED") {
            self.failures.push(line.into());
        }
        if self.passed + self.failed + self.skipped > before {
            line.clone_into(&mut self.last);
        }
    }

    /// A program ended badly, and said of no test that it failed: it died, or could not be run.
    pub(crate) fn hear_of_death(&mut self, program: &str) {
        self.failed += 1;
        self.failures.push(format!("{program} did not end well, and did not say why"));
    }

    /// What the runner said of the last tests that ran; of the failures, if there were any.
    pub(crate) fn closing(&self) -> String {
        if self.failures.is_empty() { self.last.clone() } else { self.failures.join("\n") }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    fn of(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.hear(line));
        tally
    }

    #[test]
    fn every_result_line_is_added_up() {
        let tally = of("running 3 tests\n\
            test a ... ok\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; finished in 0.00s\n\
            test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n\
            test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n");
        assert_eq!(tally.to_string(), "42 passed, 0 failed, 1 skipped");
        assert!(tally.closing().starts_with("test result: ok. 40 passed"));
    }

    #[test]
    fn failures_are_counted_and_repeated_at_the_end() {
        let tally = of("test a::b ... FAILED\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n");
        assert_eq!(tally.to_string(), "2 passed, 1 failed, 0 skipped");
        assert!(tally.closing().starts_with("test a::b ... FAILED\ntest result: FAILED."));
    }

    #[test]
    fn what_only_mentions_a_result_is_not_counted() {
        let tally = of("it said test result: ok. 7 passed; 0 failed\n7 passed\n");
        assert_eq!(tally, Tally::default());
    }
}
