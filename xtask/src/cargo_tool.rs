//! A tool of cargo is built in the version that is known to work, and kept for later runs.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{Result, cargo, run, succeeds};

/// A program of the registry that cargo builds.
pub(crate) struct CargoTool {
    /// The package, and the program in it.
    pub(crate) name: &'static str,
    /// The version that is installed where there is none.
    pub(crate) version: &'static str,
    /// How the program is asked whether it is there.
    pub(crate) probe: &'static [&'static str],
}

impl CargoTool {
    /// The program, which is built if it is absent.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        self.found().map_or_else(|| self.install(), Ok)
    }

    /// Our own first, because its version is known.
    fn found(&self) -> Option<PathBuf> {
        let candidates = [self.kept_at(), Some(PathBuf::from(self.name))];
        let mut candidates = candidates.into_iter().flatten();
        candidates.find(|it| succeeds(Command::new(it).args(self.probe)))
    }

    fn install(&self) -> Result<PathBuf> {
        let Self { name, version, .. } = self;
        let home = || format!("There is no home to install {name} into.");
        let (folder, program) = self.folder().zip(self.kept_at()).ok_or_else(home)?;
        println!("{name} is absent: version {version} is built now, which takes minutes.");
        let mut call = cargo(["install", name, "--locked", "--version", version, "--root"]);
        run(call.arg(folder))
            .map_err(|error| format!("{name} is absent, and could not be installed: {error}"))?;
        Ok(program)
    }

    /// A folder for this version alone, so that a later run finds it.
    fn folder(&self) -> Option<PathBuf> {
        Some(tenure_servers::tools_folder()?.join(format!("{}-{}", self.name, self.version)))
    }

    fn kept_at(&self) -> Option<PathBuf> {
        Some(self.folder()?.join("bin").join(self.name))
    }
}
