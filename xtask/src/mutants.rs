//! `cargo-mutants`: puts faults into core, one at a time, and runs its tests against each.

use std::process::{Command, Stdio};

use crate::cargo_tool::CargoTool;
use crate::process::{Result, run};

const MUTANTS: CargoTool =
    CargoTool { name: "cargo-mutants", version: "27.1.0", probe: &["mutants", "--version"] };

/// Runs it over core, or over the files that the arguments name: `--file core/src/belief/hold.rs`.
///
/// Only core is mutated; the proof of the conformance suite are its broken engines. The faults go
/// into a copy of the tree; `mutants.out` lists those that survived.
pub(crate) fn run_over_core(arguments: &[&str]) -> Result<()> {
    let mut call = Command::new(MUTANTS.program()?);
    call.args(["mutants", "--package", "tenure-core", "--output", "target"]).args(arguments);
    // Unit tests are quick; integration tests find the faults that they miss.
    call.args(["--", "--lib", "--tests"]).stdin(Stdio::null());
    run(&mut call)
}
