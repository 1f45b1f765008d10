//! A test program: the binary that cargo built from one target's tests, its folder and environment.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::process::{Result, cargo, read, run};

/// The scope of a full run. The build and the doc tests share it: other features would build the
/// crates a second time.
pub(crate) const EVERYTHING: [&str; 2] = ["--workspace", ALL_FEATURES];

const ALL_FEATURES: &str = "--all-features";

/// The arguments of `cargo test` that go before these: `EVERYTHING`, without those that these
/// replace. In cargo `--workspace` takes precedence over `--package`, and `--all-features` over
/// `--features`.
pub(crate) fn scope_beside(arguments: &[&str]) -> Vec<&'static str> {
    let (mut scope, mut features) = (Some("--workspace"), Some(ALL_FEATURES));
    // Arguments after `--` are for the test programs.
    for argument in arguments.iter().take_while(|argument| **argument != "--") {
        match argument.split('=').next().unwrap_or(argument) {
            "--package" | "--workspace" | "--all" => scope = None,
            "--features" | ALL_FEATURES | "--no-default-features" => features = None,
            short if short.starts_with("-p") => scope = None,
            short if short.starts_with("-F") => features = None,
            _ => {}
        }
    }
    scope.into_iter().chain(features).collect()
}

/// One test program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The source of its root module, relative to the root of the workspace.
    pub source: String,
    executable: PathBuf,
    /// The folder of its package, its working directory.
    folder: PathBuf,
}

/// The examples that a test runs. Clippy checks the others.
const EXAMPLES: &str = "tenure/examples";

/// Builds every test program, and the examples that a test runs.
pub(crate) fn build_all() -> Result<Vec<Program>> {
    let mut call = cargo(["test", "--no-run", "--message-format=json-render-diagnostics"]);
    let messages = read(call.args(EVERYTHING).arg("--tests"))?;
    // Cargo builds an example that is named to `cargo test` as a test.
    let mut call = cargo(["build"]);
    call.args(EVERYTHING);
    for example in stems(Path::new(EXAMPLES))? {
        call.args(["--example", &example]);
    }
    run(&mut call)?;
    let root = std::env::current_dir()
        .map_err(|error| format!("cannot read the current folder: {error}"))?;
    Ok(messages.lines().filter_map(|line| Program::of(line, &root)).collect())
}

/// The names of the Rust files of a folder, without their endings.
fn stems(folder: &Path) -> Result<Vec<String>> {
    let cannot = |error| format!("cannot list {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in folder.read_dir().map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if path.extension().is_some_and(|end| end == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    Ok(names)
}

impl Program {
    /// A program that was not built, for tests.
    #[cfg(test)]
    pub(crate) fn at(source: &str, folder: &Path) -> Self {
        Self { source: source.into(), executable: folder.join("program"), folder: folder.into() }
    }

    /// The program of a cargo message, if the message is about a test program.
    fn of(message: &str, root: &Path) -> Option<Self> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let source = Path::new(message["target"]["src_path"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
        Some(Self {
            source: source.strip_prefix(root).unwrap_or(source).display().to_string(),
            executable: message["executable"].as_str()?.into(),
            folder: folder.into(),
        })
    }

    /// The command of `cargo test`: in the package's folder, with `CARGO_MANIFEST_DIR` set.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.stdin(Stdio::null());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::{EVERYTHING, Path, Program, scope_beside};

    #[test]
    fn a_package_that_is_named_is_tested_alone_with_every_feature() {
        for package in
            [&["-p", "x"][..], &["-px"], &["-p=x"], &["--package", "x"], &["--package=x"]]
        {
            assert_eq!(scope_beside(package), ["--all-features"], "{package:?}");
        }
        assert_eq!(scope_beside(&["order::", "--", "-p", "--features"]), EVERYTHING);
    }

    #[test]
    fn features_that_are_named_are_not_joined_by_all_others() {
        for features in [&["--features", "file"][..], &["-Ffile"], &["--no-default-features"]] {
            assert_eq!(scope_beside(features), ["--workspace"], "{features:?}");
        }
        assert_eq!(scope_beside(&["-p", "x", "--features=file"]), [""; 0]);
    }

    fn of(line: &str) -> Option<String> {
        Program::of(line, Path::new("/w")).map(|program| program.source)
    }

    #[test]
    fn only_test_programs_are_read_from_the_messages_of_cargo() {
        let artifact = r#"{"reason":"compiler-artifact","manifest_path":"/w/a/Cargo.toml","target":{"kind":["test"],"src_path":"/w/a/tests/b.rs"},
            "profile":{"test":true},"executable":"/w/target/debug/deps/b-1"}"#;
        assert_eq!(of(artifact).as_deref(), Some("a/tests/b.rs"));
        assert_eq!(of(&artifact.replace("true", "false")), None, "an example is no test");
        assert_eq!(of(&artifact.replace(r#""/w/target/debug/deps/b-1""#, "null")), None);
        assert_eq!(of(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(of("warning: this is no message"), None);
    }
}
