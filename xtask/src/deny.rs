//! What may be depended on is in `deny.toml`; `cargo-deny` keeps it.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::process::{Result, cargo, run, succeeds};

/// The version that is installed where there is none.
const VERSION: &str = "0.20.2";

/// Runs the checks that need no more than the registry.
pub(crate) fn check() -> Result<String> {
    let program = match found() {
        Some(program) => program,
        None => match install() {
            Ok(program) => program,
            Err(sentence) if env::var("CI").is_ok_and(|ci| ci == "true") => return Err(sentence),
            Err(sentence) => return Ok(format!("NOT CHECKED: {sentence}")),
        },
    };
    run(Command::new(program).args(["check", "bans", "licenses", "sources"]).stdin(Stdio::null()))?;
    Ok("passed; advisories were not checked: they need the network".into())
}

/// Our own first, because its version is known.
fn found() -> Option<PathBuf> {
    let candidates = [folder().map(|it| program(&it)), Some(PathBuf::from("cargo-deny"))];
    candidates.into_iter().flatten().find(|it| succeeds(Command::new(it).arg("--version")))
}

fn install() -> Result<PathBuf> {
    let folder = folder().ok_or("There is no home to install cargo-deny into.")?;
    println!("cargo-deny is absent: version {VERSION} is built now, which takes minutes.");
    let mut call = cargo(["install", "cargo-deny", "--locked", "--version", VERSION, "--root"]);
    run(call.arg(&folder))
        .map_err(|error| format!("cargo-deny is absent, and could not be installed: {error}"))?;
    Ok(program(&folder))
}

/// A folder for this version alone, so that a later run finds it.
fn folder() -> Option<PathBuf> {
    Some(tenure_servers::tools_folder()?.join(format!("cargo-deny-{VERSION}")))
}

fn program(folder: &std::path::Path) -> PathBuf {
    folder.join("bin").join("cargo-deny")
}
