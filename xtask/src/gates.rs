//! `cargo xtask ci`: the gates, each a check that a change must pass.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::counts::Counts;
use crate::process::{Result, cargo, run};
use crate::{deny, features, metadata, rust_version, testing, tidy};

/// One check, by the name that `cargo xtask ci NAME` knows.
#[derive(Clone, Copy)]
pub(crate) struct Gate {
    name: &'static str,
    kind: Kind,
}

/// A check, which returns a note or an empty text; or the tests, which are counted.
#[derive(Clone, Copy)]
enum Kind {
    Check(fn() -> Result<String>),
    Test,
}

/// All gates. The tests are last: they take longest, and their counts close the output.
const GATES: [Gate; 9] = [
    Gate { name: "format", kind: Kind::Check(format) },
    Gate { name: "tidy", kind: Kind::Check(tidy::check) },
    Gate { name: "clippy", kind: Kind::Check(clippy) },
    Gate { name: "rust-version", kind: Kind::Check(rust_version::check) },
    Gate { name: "features", kind: Kind::Check(features::check) },
    Gate { name: "docs", kind: Kind::Check(docs) },
    Gate { name: "package", kind: Kind::Check(package) },
    Gate { name: "deny", kind: Kind::Check(deny::check) },
    Gate { name: "test", kind: Kind::Test },
];

/// Returns the gates of these names; without names, all.
pub(crate) fn choose(names: &[&str]) -> Result<Vec<Gate>> {
    if names.is_empty() {
        return Ok(GATES.to_vec());
    }
    let known = |name: &&str| {
        GATES.into_iter().find(|gate| gate.name == *name).ok_or_else(|| {
            let all = GATES.map(|gate| gate.name).join(", ");
            format!("`{name}` is not a gate: the gates are {all}")
        })
    };
    names.iter().map(known).collect()
}

/// Runs every gate, also after one that failed, and prints a table of their outcomes.
pub(crate) fn command(gates: &[Gate]) -> ExitCode {
    let mut rows = Vec::new();
    let mut counts = None;
    for gate in gates {
        println!("\n── {} ──", gate.name);
        let started = Instant::now();
        let verdict = match gate.kind {
            Kind::Check(check) => check(),
            Kind::Test => test(&mut counts),
        };
        if let Err(error) = &verdict {
            println!("{error}");
        }
        rows.push(Row { name: gate.name, took: started.elapsed(), verdict });
    }
    println!("\n{}", table(&rows));
    if let Some(counts) = counts {
        println!("{}\n{counts}", counts.closing());
    }
    if rows.iter().all(|row| row.verdict.is_ok()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Row {
    name: &'static str,
    took: Duration,
    verdict: Result<String>,
}

fn table(rows: &[Row]) -> String {
    let mut table = String::new();
    for Row { name, took, verdict } in rows {
        let seconds = took.as_secs_f64();
        let outcome = match verdict {
            Ok(note) if note.is_empty() => "passed".into(),
            Ok(note) => note.clone(),
            Err(_) => format!("FAILED; alone: cargo xtask ci {name}"),
        };
        writeln!(table, "{name:<14}{seconds:>7.1} s  {outcome}")
            .expect("a string accepts all text");
    }
    table
}

fn format() -> Result<String> {
    // By default rustfmt colours its output also in a file.
    let color = if io::stdout().is_terminal() { "auto" } else { "never" };
    run(&mut cargo(["fmt", "--all", "--check", "--", "--color", color])).map(|()| String::new())
}

fn clippy() -> Result<String> {
    let scope = ["clippy", "--workspace", "--all-targets", "--all-features"];
    run(cargo(scope).args(["--", "-D", "warnings"])).map(|()| String::new())
}

fn docs() -> Result<String> {
    let mut call = cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    run(call.env("RUSTDOCFLAGS", "-D warnings")).map(|()| String::new())
}

/// Packs the crates that a release publishes. The other gates build them.
fn package() -> Result<String> {
    let mut call = cargo(["package", "--workspace", "--no-verify", "--allow-dirty", "--offline"]);
    let members = metadata::members()?;
    for member in members.iter().filter(|member| !member.is_published) {
        call.args(["--exclude", &member.name]);
    }
    let count = members.iter().filter(|member| member.is_published).count();
    run(&mut call).map(|()| format!("{count} crates"))
}

/// Runs the tests. Every server is required: a test that skips for lack of one would look passed.
fn test(counts: &mut Option<Counts>) -> Result<String> {
    let counts =
        counts.insert(testing::run_all(&[("TENURE_REQUIRE", "all")]).unwrap_or_else(|error| {
            println!("{error}");
            Counts::of_a_run_that_did_not_start()
        }));
    if counts.is_success() {
        Ok(counts.to_string())
    } else {
        Err("the tests failed; the last lines list the failures".into())
    }
}

#[cfg(test)]
mod tests {
    use super::{Row, choose, table};
    use std::time::Duration;

    #[test]
    fn gates_are_chosen_by_name() {
        assert_eq!(choose(&["docs", "deny"]).expect("both are gates").len(), 2);
        assert!(choose(&["docs", "dreams"]).err().expect("no such gate").contains("`dreams`"));
    }

    #[test]
    fn the_table_says_how_to_run_what_failed() {
        let took = Duration::from_millis(1200);
        let table = table(&[
            Row { name: "docs", took, verdict: Ok(String::new()) },
            Row { name: "tidy", took, verdict: Ok("7 files are tidy".into()) },
            Row { name: "deny", took, verdict: Err("it failed".into()) },
        ]);
        assert_eq!(
            table,
            "docs              1.2 s  passed\n\
             tidy              1.2 s  7 files are tidy\n\
             deny              1.2 s  FAILED; alone: cargo xtask ci deny\n"
        );
    }
}
