//! Peers that are no crates: Python's, each in a folder of the bench's own, behind a script.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::side::Side;
use crate::figures::Table;

/// One of them.
pub(crate) struct Python {
    /// What the tables call it.
    pub(crate) title: &'static str,
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// What is there when it is installed.
    pub(crate) module: &'static str,
    pub(crate) script: &'static str,
    /// What a waiter sleeps before it looks again.
    pub(crate) poll: Duration,
}

impl Python {
    /// A process with this peer in it, or why there is none.
    pub(crate) fn side(&self, url: &str, key: &str) -> Result<Side, String> {
        let folder = self.installed()?;
        let mut python = Command::new("python3");
        python.args(["-c", self.script, url, key]).env("PYTHONPATH", folder);
        Side::start(&mut python)
    }

    /// A row that is not left out quietly.
    pub(crate) fn say_absent(&self, table: &mut Table, case: &str, why: &str) {
        table.row(format!("{case}, {}", self.title), format!("absent: {why}"), "–", "–");
    }

    /// The folder that has it, filled when it is not there.
    fn installed(&self) -> Result<PathBuf, String> {
        let Self { package, version, .. } = self;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let folder = program.with_file_name(format!("{package}-{version}"));
        if folder.join(self.module).is_dir() {
            return Ok(folder);
        }
        // Only a whole one gets the name.
        let half = program.with_file_name(format!("{package}-{version}.half"));
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"])
            .arg(format!("{package}=={version}"))
            .arg("--target")
            .arg(&half)
            .env("PIP_ROOT_USER_ACTION", "ignore")
            .stdout(Stdio::null());
        match pip.status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                return Err(format!("pip does not install {package} {version}: {status}"));
            }
            Err(error) => return Err(format!("python3 does not start: {error}")),
        }
        std::fs::rename(&half, &folder).map_err(|error| error.to_string())?;
        Ok(folder)
    }
}
