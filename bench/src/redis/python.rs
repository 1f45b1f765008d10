//! The peer that is no crate: redis-py, in a folder of the bench's own, behind a script.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::side::Side;
use crate::figures::Table;

pub(crate) const NAME: &str = "`Lock` of redis-py";
/// What its `Lock` sleeps before it looks again, in milliseconds.
pub(crate) const POLL_MS: u64 = 100;

const VERSION: &str = "8.1.0";
const SCRIPT: &str = include_str!("../../redis_peer.py");

/// A process with this peer in it, or why there is none.
pub(crate) fn side(url: &str, key: &str) -> Result<Side, String> {
    let folder = installed()?;
    let mut python = Command::new("python3");
    python.args(["-c", SCRIPT, url, key]).env("PYTHONPATH", folder);
    Side::start(&mut python)
}

/// A row that is not left out quietly.
pub(crate) fn say_absent(table: &mut Table, case: &str, why: &str) {
    table.row(format!("{case}, {NAME}"), format!("absent: {why}"), "–", "–");
}

/// The folder that has it, filled when it is not there.
fn installed() -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = program.with_file_name(format!("redis-py-{VERSION}"));
    if folder.join("redis").is_dir() {
        return Ok(folder);
    }
    // Only a whole one gets the name.
    let half = folder.with_extension("half");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"])
        .arg(format!("redis=={VERSION}"))
        .arg("--target")
        .arg(&half)
        .env("PIP_ROOT_USER_ACTION", "ignore")
        .stdout(Stdio::null());
    match pip.status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("pip does not install redis-py {VERSION}: {status}")),
        Err(error) => return Err(format!("python3 does not start: {error}")),
    }
    std::fs::rename(&half, &folder).map_err(|error| error.to_string())?;
    Ok(folder)
}
