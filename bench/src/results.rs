//! `results.json`: the rows of the last run of each suite, with its date, machine and commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::figures::Row;

/// All runs, in the order of the suites.
pub(crate) struct Results {
    runs: Vec<Run>,
}

/// The last run of one suite.
pub(crate) struct Run {
    suite: String,
    date: String,
    machine: String,
    commit: String,
    rows: Vec<Row>,
}

/// A file of this crate.
pub(crate) fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

impl Run {
    /// A run of this build on this machine, today.
    pub(crate) fn now(suite: &str, rows: Vec<Row>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            suite: suite.into(),
            date: output("date", &["-u", "+%F"]),
            machine: format!("{}, {cores} cores", output("uname", &["-sm"])),
            commit: output("git", &["describe", "--always", "--dirty"]),
            rows,
        }
    }
}

/// The first line that a program prints; empty if it fails.
fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().map(|output| output.stdout);
    let text = String::from_utf8(output.unwrap_or_default()).unwrap_or_default();
    text.lines().next().unwrap_or_default().into()
}

impl Results {
    /// Reads `results.json`.
    pub(crate) fn read() -> Result<Self, String> {
        let text = std::fs::read_to_string(file("results.json")).map_err(|it| it.to_string())?;
        Self::parse(&text).ok_or_else(|| "cannot parse results.json: restore it with git".into())
    }

    fn parse(text: &str) -> Option<Self> {
        let runs = serde_json::from_str::<Value>(text).ok()?;
        let runs = runs.as_array()?.iter().map(Run::parse).collect::<Option<_>>()?;
        Some(Self { runs })
    }

    /// The text of the file: one line for each row, so that git shows which of them changed.
    pub(crate) fn text(&self) -> String {
        let runs: Vec<String> = self.runs.iter().map(Run::text).collect();
        format!("[\n{}\n]\n", runs.join(",\n"))
    }

    /// Puts a run in the place of the suite's last one.
    pub(crate) fn replace(&mut self, run: Run) {
        match self.runs.iter_mut().find(|old| old.suite == run.suite) {
            Some(old) => *old = run,
            None => self.runs.push(run),
        }
    }

    /// The rows of a case on a store: the row of Tenure has the label `tenure`, others their name.
    pub(crate) fn of_case(&self, store: &str, case: &str) -> Vec<(&str, &Row)> {
        let case = format!("{store}: {case}");
        let rows = self.runs.iter().flat_map(|run| &run.rows);
        let labelled = rows.filter_map(|row| {
            let rest = row.case.strip_prefix(&case)?;
            let label = rest.strip_prefix(", ").or_else(|| rest.strip_prefix(": "));
            let is_other = |it: &&str| it.contains("processor time") || it.contains("one thread");
            match label {
                None if rest.is_empty() => Some(("tenure", row)),
                label => label.filter(|label| !is_other(label)).map(|label| (label, row)),
            }
        });
        labelled.collect()
    }

    /// The row of Tenure in a case on a store.
    pub(crate) fn ours(&self, store: &str, case: &str) -> Option<&Row> {
        self.of_case(store, case).into_iter().find(|(name, _)| *name == "tenure").map(|it| it.1)
    }
}

impl Run {
    fn parse(run: &Value) -> Option<Self> {
        let text = |of: &Value, name: &str| of[name].as_str().map(String::from);
        let row = |row: &Value| {
            Some(Row {
                case: text(row, "case")?,
                measured: text(row, "measured")?,
                beside: text(row, "beside")?,
                wanted: text(row, "wanted")?,
            })
        };
        Some(Self {
            suite: text(run, "suite")?,
            date: text(run, "date")?,
            machine: text(run, "machine")?,
            commit: text(run, "commit")?,
            rows: run["rows"].as_array()?.iter().map(row).collect::<Option<_>>()?,
        })
    }

    fn text(&self) -> String {
        let Self { suite, date, machine, commit, rows } = self;
        let head =
            fields([("suite", suite), ("date", date), ("machine", machine), ("commit", commit)]);
        let rows = rows.iter().map(|Row { case, measured, beside, wanted }| {
            let row =
                [("case", case), ("measured", measured), ("beside", beside), ("wanted", wanted)];
            format!("    {{{}}}", fields(row))
        });
        let rows: Vec<String> = rows.collect();
        format!("  {{{head}, \"rows\": [\n{}\n  ]}}", rows.join(",\n"))
    }
}

/// Fields of JSON in this order, which a map of `serde_json` keeps only with one of its features.
fn fields<const COUNT: usize>(fields: [(&str, &String); COUNT]) -> String {
    let texts = fields.map(|(name, text)| format!("\"{name}\": {}", Value::from(text.as_str())));
    texts.join(", ")
}

/// The time that a measured text starts with, as in `1.81 µs and 2.00 requests`.
pub(crate) fn time(measured: &str) -> Option<Duration> {
    let mut words = measured.split([' ', ',']);
    let number: f64 = words.next()?.parse().ok()?;
    let seconds = match words.next()? {
        "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Some(Duration::from_secs_f64(number * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_written_as_it_was_read() {
        let text = std::fs::read_to_string(file("results.json")).unwrap();
        assert_eq!(Results::parse(&text).unwrap().text(), text);
    }

    #[test]
    fn a_new_run_replaces_the_one_of_its_suite() {
        let row = |case: &str| Row { case: case.into(), ..Row::default() };
        let mut results = Results { runs: vec![Run::now("a", vec![row("a: b"), row("a: c")])] };
        results.replace(Run::now("a", vec![row("a: b"), row("a: b, d"), row("a: bc")]));
        let labels: Vec<_> =
            results.of_case("a", "b").into_iter().map(|(label, _)| label).collect();
        assert_eq!(labels, ["tenure", "d"]);
    }

    #[test]
    fn times_are_read_with_their_units() {
        assert_eq!(time("1.5 ms and more"), Some(Duration::from_micros(1500)));
        assert_eq!(time("20 µs, 3 requests"), Some(Duration::from_micros(20)));
        assert_eq!(time("13,113/s, 4 per task"), None);
        assert_eq!(time("fails instead of waiting"), None);
    }
}
