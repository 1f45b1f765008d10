//! Peers that are no crates: Python's, each in a folder of the bench's own, and Java's, from the system's packages. Each is a
//! process behind a script.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::side::Side;
use crate::figures::Table;

/// Where the system's packages put what Java runs.
const JARS: &str = "/usr/share/java";

/// One of them.
pub(crate) struct Elsewhere {
    /// What the tables call it.
    pub(crate) title: &'static str,
    pub(crate) runs: Runs,
    /// What a waiter sleeps before it looks again. Zero: somebody tells it.
    pub(crate) poll: Duration,
}

/// What it runs on.
pub(crate) enum Runs {
    Python(Python),
    Java(Java),
}

/// A package that pip installs.
pub(crate) struct Python {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// What is there when it is installed.
    pub(crate) module: &'static str,
    pub(crate) script: &'static str,
}

/// A package of the system.
pub(crate) struct Java {
    pub(crate) package: &'static str,
    pub(crate) jars: &'static [&'static str],
    /// The class in the script.
    pub(crate) class: &'static str,
    pub(crate) script: &'static str,
}

impl Elsewhere {
    /// A process with this peer in it, or why there is none.
    pub(crate) fn side(&self, url: &str, key: &str) -> Result<Side, String> {
        let mut command = match &self.runs {
            Runs::Python(python) => python.command()?,
            Runs::Java(java) => java.command()?,
        };
        Side::start(command.args([url, key]))
    }

    /// A row that is not left out quietly.
    pub(crate) fn say_absent(&self, table: &mut Table, case: &str, why: &str) {
        table.row(format!("{case}, {}", self.title), format!("absent: {why}"), "–", "–");
    }
}

impl Python {
    fn command(&self) -> Result<Command, String> {
        let folder = self.installed()?;
        let mut command = Command::new("python3");
        command.args(["-c", self.script]).env("PYTHONPATH", folder);
        Ok(command)
    }

    /// The folder that has it, filled when it is not there.
    fn installed(&self) -> Result<PathBuf, String> {
        let Self { package, version, .. } = self;
        let folder = beside_this(&format!("{package}-{version}"))?;
        if folder.join(self.module).is_dir() {
            return Ok(folder);
        }
        // Only a whole one gets the name.
        let half = beside_this(&format!("{package}-{version}.half"))?;
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

impl Java {
    /// Java compiles a script when it starts, which its first rounds do not count.
    fn command(&self) -> Result<Command, String> {
        let jars: Vec<PathBuf> = self.jars.iter().map(|jar| Path::new(JARS).join(jar)).collect();
        if !jars.iter().all(|jar| jar.is_file()) {
            return Err(format!("the package {} is not installed", self.package));
        }
        let jars: Vec<_> = jars.iter().map(|jar| jar.display().to_string()).collect();
        let script = beside_this(&format!("{}.java", self.class))?;
        std::fs::write(&script, self.script).map_err(|error| error.to_string())?;
        let mut command = Command::new("java");
        command.arg("-cp").arg(jars.join(":")).arg(script).stderr(Stdio::null());
        Ok(command)
    }
}

/// A file or a folder beside this program.
fn beside_this(name: &str) -> Result<PathBuf, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(program.with_file_name(name))
}
