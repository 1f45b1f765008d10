//! Faults are put into core, one at a time, and its tests must notice each: `cargo-mutants` does both.

use std::process::{Command, Stdio};

use crate::cargo_tool::CargoTool;
use crate::process::{Result, run};

const MUTANTS: CargoTool =
    CargoTool { name: "cargo-mutants", version: "27.1.0", probe: &["mutants", "--version"] };

/// Runs it over core, or over the files that the arguments name: `--file core/src/belief/hold.rs`.
///
/// What waits for a store is not mutated here: it is for the conformance suite, whose own proof is its
/// broken engines. A copy of the tree is mutated; `mutants.out` says what survived.
pub(crate) fn run_over_core(arguments: &[&str]) -> Result<()> {
    let mut call = Command::new(MUTANTS.program()?);
    call.args(["mutants", "--package", "tenure-core", "--output", "target"]).args(arguments);
    // Tests of files by themselves are quick; those of whole locks notice what they do not.
    call.args(["--", "--lib", "--tests"]).stdin(Stdio::null());
    run(&mut call)
}
