//! Tools: the programs and libraries that must be installed to start a server.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::{env, fs};

use crate::deployment::deployments;
use crate::wheel::Wheel;

/// A tool and its source.
#[derive(Clone, Copy, Debug)]
pub struct Tool {
    /// The name, which is also the name of the file.
    pub name: &'static str,
    /// The Debian packages that contain it, or that are needed to download and run it.
    pub package: &'static str,
    /// Whether tests that need it fail without it under `TENURE_REQUIRE=all`.
    ///
    /// Tools that current distributions do not have are not required.
    pub required: bool,
    /// The wheel that contains it, if no Debian package does.
    pub wheel: Option<&'static Wheel>,
    find: fn(&str) -> Option<PathBuf>,
}

impl Tool {
    /// A program on the PATH.
    pub const fn program(name: &'static str, package: &'static str) -> Self {
        Self { name, package, required: true, wheel: None, find: on_path }
    }

    /// A program on the PATH, or in a wheel, which is for Linux on x86-64 only.
    pub const fn in_wheel(
        name: &'static str,
        package: &'static str,
        wheel: &'static Wheel,
    ) -> Self {
        let required = cfg!(all(target_os = "linux", target_arch = "x86_64"));
        Self { name, package, required, wheel: Some(wheel), find: on_path }
    }

    /// A library in a folder such as `faketime/` below the folders of libraries.
    pub const fn library(name: &'static str, package: &'static str) -> Self {
        Self { name, package, required: true, wheel: None, find: in_libraries }
    }

    /// A file with a fixed path.
    pub const fn file(path: &'static str, package: &'static str) -> Self {
        Self { name: path, package, required: true, wheel: None, find: in_place }
    }

    /// A file that `find` finds by its name.
    #[cfg(unix)]
    pub(crate) const fn elsewhere(
        name: &'static str,
        package: &'static str,
        find: fn(&str) -> Option<PathBuf>,
    ) -> Self {
        Self { name, package, required: true, wheel: None, find }
    }

    /// Makes the tool optional.
    #[must_use]
    pub const fn not_required(self) -> Self {
        Self { required: false, ..self }
    }

    /// Returns the path of the tool if it is installed.
    pub fn found(&self) -> Option<PathBuf> {
        let kept = || self.wheel?.kept_at().filter(|kept| kept.exists());
        (self.find)(self.name).or_else(kept)
    }

    /// Returns a sentence with the remedy if the tool is not installed.
    pub fn absent(&self) -> Option<String> {
        let sentence = || format!("{} is absent. {}.", self.name, self.way_out());
        self.found().is_none().then(sentence)
    }

    /// Returns the remedy, as the beginning of a sentence.
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

/// Returns every tool that a test may need, once: those of the deployments, and those of tests that
/// start servers of their own.
pub fn tools() -> Vec<Tool> {
    let shared = deployments().into_iter().flat_map(|it| it.needs.iter().copied());
    let all = shared.chain(private());
    all.map(|tool| (tool.name, tool)).collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Kills a process at a chosen call to the system, for the tests of the file engine.
#[cfg(unix)]
const STRACE: Tool = Tool::program("strace", "strace");

/// Reads JSON, for the hooks among the recipes.
pub const JQ: Tool = Tool::program("jq", "jq");

/// Checks metrics, and tests the rules of alerts.
pub const PROMTOOL: Tool = Tool::program("promtool", "prometheus");

/// A proxy in front of `tenure serve`. Debian has it in a folder that only root has on its PATH.
pub const NGINX: Tool = Tool::file("/usr/sbin/nginx", "nginx-light");

/// Runs the client of locks over HTTP for Python.
pub const PYTHON: Tool = Tool::program("python3", "python3");

/// Runs the client of locks over HTTP for JavaScript.
pub const NODE: Tool = Tool::program("node", "nodejs");

/// A browser, for the page of `tenure serve`.
pub const CHROMIUM: Tool = Tool::program("chromium", "chromium");
/// Drives the browser.
pub const CHROMEDRIVER: Tool = Tool::program("chromedriver", "chromium-driver");

#[cfg(unix)]
fn private() -> Vec<Tool> {
    use crate::mariadb::GALERA;
    use crate::redis::FAKETIME;

    vec![FAKETIME, GALERA, STRACE, JQ, PROMTOOL, NGINX, PYTHON, NODE, CHROMIUM, CHROMEDRIVER]
}

#[cfg(not(unix))]
fn private() -> Vec<Tool> {
    Vec::new()
}

/// Whether a test that needs these tools can run here. If not, prints `SKIPPED` and the reason.
///
/// # Panics
///
/// Panics under `TENURE_REQUIRE=all` if a required tool is absent.
pub fn have(needs: &[Tool]) -> bool {
    let absent = |tool: &Tool| Some((tool.required, tool.absent()?));
    let Some((required, sentence)) = needs.iter().find_map(absent) else { return true };
    let everything = env::var("TENURE_REQUIRE").is_ok_and(|what| what == "all");
    assert!(!(everything && required), "TENURE_REQUIRE=all, but {sentence}");
    // The test runner captures the output of `println!`.
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

/// Debian has a folder of libraries for each architecture, other systems do not.
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
    fn an_installed_tool_is_found() {
        assert!(Tool::program("sh", "dash").found().is_some());
        assert!(Tool::program("no-such-program", "none").found().is_none());
        assert!(Tool::library("no-such-folder/library.so", "none").found().is_none());
    }

    #[test]
    fn a_test_without_an_optional_tool_is_skipped() {
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
