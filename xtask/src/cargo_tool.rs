//! Builds a tool of cargo in a pinned version, and keeps it for later runs.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{Result, cargo, run, succeeds};

/// A program of the registry.
pub(crate) struct CargoTool {
    /// The name of the package and of its program.
    pub(crate) name: &'static str,
    /// The version to install if the program is absent.
    pub(crate) version: &'static str,
    /// Arguments with which the program exits with 0.
    pub(crate) probe: &'static [&'static str],
}

impl CargoTool {
    /// Returns the program, and builds it first if it is absent.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        self.found().map_or_else(|| self.install(), Ok)
    }

    /// Prefers the pinned version to one on the PATH.
    fn found(&self) -> Option<PathBuf> {
        let candidates = [self.kept_at(), Some(PathBuf::from(self.name))];
        let mut candidates = candidates.into_iter().flatten();
        candidates.find(|it| succeeds(Command::new(it).args(self.probe)))
    }

    fn install(&self) -> Result<PathBuf> {
        let Self { name, version, .. } = self;
        let home = || format!("HOME is not set, so {name} cannot be installed");
        let (folder, program) = self.folder().zip(self.kept_at()).ok_or_else(home)?;
        println!("{name} is absent: building version {version}, which takes minutes");
        let mut call = cargo(["install", name, "--locked", "--version", version, "--root"]);
        run(call.arg(folder))
            .map_err(|error| format!("{name} is absent and could not be installed: {error}"))?;
        Ok(program)
    }

    /// The folder of this version.
    fn folder(&self) -> Option<PathBuf> {
        Some(tenure_servers::tools_folder()?.join(format!("{}-{}", self.name, self.version)))
    }

    fn kept_at(&self) -> Option<PathBuf> {
        Some(self.folder()?.join("bin").join(self.name))
    }
}
