//! Counts of passed, failed and skipped tests, read from the output of test programs.

use std::fmt;

/// The counts of a run, and its failures.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
    failures: Vec<String>,
    last: String,
}

/// Maximum characters of a panic's message in the list of failures.
const MESSAGE_MAX: usize = 400;

impl Counts {
    /// One failure, for a run that did not start: no counts at all would look like a success.
    pub(crate) fn of_a_run_that_did_not_start() -> Self {
        Self { failed: 1, ..Self::default() }
    }

    /// Adds the output of a program. One that failed without a failed test counts as one failure.
    pub(crate) fn add(&mut self, program: &str, output: &str, passed: bool) {
        let before = self.failed;
        let mut previous = "";
        for line in output.lines().map(str::trim_end) {
            // A program that passed may have panics that its tests expect.
            if !passed && previous.starts_with("thread '") && previous.contains(" panicked at ") {
                let message: String = line.chars().take(MESSAGE_MAX).collect();
                self.failures.extend([previous.into(), format!("    {message}")]);
            }
            self.add_line(line);
            previous = line;
        }
        if !passed && self.failed == before {
            self.failed += 1;
            self.failures.push(format!("{program} failed, but none of its tests did"));
        }
    }

    fn add_line(&mut self, line: &str) {
        if line.starts_with("test ") && line.ends_with(" ... FAILED") {
            self.failures.push(line.into());
        }
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        let before = self.all();
        for count in counts.split([';', '.']) {
            let Some((number, outcome)) = count.trim().split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match outcome {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
        if counts.starts_with("FAILED") {
            self.failures.push(line.into());
        }
        if self.all() > before {
            line.clone_into(&mut self.last);
        }
    }

    fn all(&self) -> u64 {
        self.passed + self.failed + self.skipped
    }

    /// Counts a run in which no test passed as one failure.
    pub(crate) fn end(mut self) -> Self {
        if self.passed == 0 && self.failed == 0 {
            self.failed = 1;
            self.failures.push("no test passed".into());
        }
        self
    }

    pub(crate) fn is_success(&self) -> bool {
        self.failed == 0
    }

    /// The last result line with a test; after a failure, all failures.
    pub(crate) fn closing(&self) -> String {
        if self.failures.is_empty() { self.last.clone() } else { self.failures.join("\n") }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::Counts;

    fn of(output: &str, passed: bool) -> Counts {
        let mut counts = Counts::default();
        counts.add("a/tests/b.rs", output, passed);
        counts.end()
    }

    #[test]
    fn every_result_line_is_added_up() {
        let counts = of(
            "running 3 tests\n\
            test a ... ok\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; finished in 0.00s\n\
            test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.50s\n\
            test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
            true,
        );
        assert_eq!(counts.to_string(), "42 passed, 0 failed, 1 skipped");
        assert!(counts.closing().starts_with("test result: ok. 40 passed"));
        assert!(counts.is_success());
    }

    #[test]
    fn failures_are_counted_and_repeated_at_the_end() {
        let counts = of(
            "test a::b ... FAILED\n\
            thread 'a::b' (7) panicked at a/tests/b.rs:222:5:\n\
            no answer came\n\
            stack backtrace:\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
            false,
        );
        assert_eq!(counts.to_string(), "2 passed, 1 failed, 0 skipped");
        assert!(counts.closing().starts_with(
            "test a::b ... FAILED\n\
            thread 'a::b' (7) panicked at a/tests/b.rs:222:5:\n    \
            no answer came\n\
            test result: FAILED."
        ));
        assert!(!counts.is_success());
    }

    #[test]
    fn a_panic_that_is_expected_is_no_failure() {
        let panic = "thread 'a' (7) panicked at a/tests/b.rs:2:5:\nas it must\n";
        let result = "test result: ok. 1 passed; 0 failed; 0 ignored";
        let counts = of(&format!("{panic}{result}\n"), true);
        assert_eq!((counts.closing().as_str(), counts.is_success()), (result, true));
    }

    #[test]
    fn a_program_that_dies_is_one_failure_and_is_named() {
        let counts = of("test result: ok. 2 passed; 0 failed; 0 ignored\nrunning 7 tests\n", false);
        assert_eq!(counts.to_string(), "2 passed, 1 failed, 0 skipped");
        assert_eq!(counts.closing(), "a/tests/b.rs failed, but none of its tests did");
    }

    #[test]
    fn a_run_without_any_test_has_failed() {
        let counts = of("it said test result: ok. 7 passed; 0 failed\n7 passed\n", true);
        assert_eq!(counts.to_string(), "0 passed, 1 failed, 0 skipped");
        assert!(!counts.is_success());
    }
}
