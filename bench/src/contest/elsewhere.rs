//! Peers in other languages, each a process that runs a script: Python packages in the build
//! folder, and Java packages of the system.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::side::Side;
use crate::figures::Table;

/// The folder of the system's jars.
const JARS: &str = "/usr/share/java";

/// A peer in another language.
pub(crate) struct Elsewhere {
    /// Its name in the tables.
    pub(crate) title: &'static str,
    pub(crate) runs: Runs,
    /// Maximum pause between two polls of a waiter. Zero: the server notifies it.
    pub(crate) poll: Duration,
}

/// Its runtime.
pub(crate) enum Runs {
    Python(Python),
    Java(Java),
}

/// A package that pip installs.
pub(crate) struct Python {
    pub(crate) package: &'static str,
    pub(crate) version: &'static str,
    /// The folder of the installed module.
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
    /// Starts a process with this peer.
    pub(crate) fn side(&self, url: &str, key: &str) -> Result<Side, String> {
        let mut command = match &self.runs {
            Runs::Python(python) => python.command()?,
            Runs::Java(java) => java.command()?,
        };
        Side::start(command.args([url, key]))
    }

    /// Adds a row for a peer that is absent.
    pub(crate) fn row_absent(&self, table: &mut Table, case: &str, error: &str) {
        table.row(format!("{case}, {}", self.title), format!("absent: {error}"), "–", "–");
    }
}

impl Python {
    fn command(&self) -> Result<Command, String> {
        let folder = self.installed()?;
        let mut command = Command::new("python3");
        command.args(["-c", self.script]).env("PYTHONPATH", folder);
        Ok(command)
    }

    /// The folder with the package, which pip fills if it is absent.
    fn installed(&self) -> Result<PathBuf, String> {
        let Self { package, version, .. } = self;
        let folder = beside_this(&format!("{package}-{version}"))?;
        if folder.join(self.module).is_dir() {
            return Ok(folder);
        }
        // Only a complete installation gets the final name.
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
                return Err(format!("pip failed to install {package} {version}: {status}"));
            }
            Err(error) => return Err(format!("cannot start python3: {error}")),
        }
        std::fs::rename(&half, &folder).map_err(|error| error.to_string())?;
        Ok(folder)
    }
}

impl Java {
    /// Java compiles the script at its start, which the first rounds do not count.
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
