//! Wheels, packages for Python, some of which contain a program that Debian does not have.

use std::env;
use std::path::PathBuf;

/// A program or a folder of a wheel. Version and hash are pinned.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// The package with its version and hash, in the format of a requirements file.
    pub requirement: &'static str,
    /// The path of the program or folder in the installed package.
    pub member: &'static str,
    /// Its name in the [folder of tools](tools_folder), with its version.
    pub file: &'static str,
}

impl Wheel {
    /// Returns the path of the downloaded program or folder, or `None` without a home directory.
    pub fn kept_at(&self) -> Option<PathBuf> {
        Some(tools_folder()?.join(self.file))
    }
}

/// Returns the folder in the user's cache where downloaded and built tools are kept for later runs.
pub fn tools_folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("tenure").join("tools"))
}
