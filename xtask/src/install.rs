//! Installs Debian packages that the servers need, where this process is root.

use std::ffi::OsStr;
use std::process::Command;

use tenure_servers::Tool;

use crate::process::{Result, read, run_script};

const SCRIPT: &str = include_str!("install.sh");
/// The script by which Debian decides whether the service of a new package starts.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs the absent tools. A failure is printed; the tests report what they lack.
pub(crate) fn absent(tools: &[Tool]) {
    let absent: Vec<Tool> = tools.iter().copied().filter(|it| it.found().is_none()).collect();
    if absent.is_empty() || !is_possible() {
        return;
    }
    let [required, optional] = packages(&absent);
    if !required.is_empty() {
        println!("installing {required}, which the servers of the tests need");
    }
    if let Err(error) = install(Command::new("sh"), POLICY, &required, &optional) {
        println!("{error}");
    }
}

/// Whether this is a Debian or a derivative, and this process is root.
pub(crate) fn is_possible() -> bool {
    let has_packages = Tool::program("apt-get", "apt").found().is_some();
    has_packages && read(Command::new("id").arg("-u")).is_ok_and(|user| user.trim() == "0")
}

/// The required and the optional packages.
fn packages(absent: &[Tool]) -> [String; 2] {
    [true, false].map(|required| {
        let of_these = absent.iter().filter(|tool| tool.required == required);
        let mut packages: Vec<&str> = of_these.map(|tool| tool.package).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.join(" ")
    })
}

fn install(shell: Command, policy: &str, required: &str, optional: &str) -> Result<()> {
    let packages = if required.is_empty() { optional } else { required };
    let arguments = [policy, required, optional].map(OsStr::new);
    run_script(shell, SCRIPT, arguments, &format!("installing {packages}"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use std::process::Command;
    use std::{env, process};

    use tenure_servers::Tool;

    use super::{install, packages};

    /// A folder with a fake `apt-get` and `apt-cache`.
    struct Machine(PathBuf);

    impl Machine {
        fn new(name: &str, apt_get: &str) -> Self {
            let folder = env::temp_dir().join(format!("tenure-xtask-{name}-{}", process::id()));
            fs::create_dir_all(&folder).expect("temp_dir is writable");
            let machine = Self(folder);
            let known = "[ \"$2\" = known ]";
            for (program, script) in [("apt-get", apt_get), ("apt-cache", known)] {
                machine.write(program, &format!("#!/bin/sh\ncd \"${{0%/*}}\"\n{script}\n"));
            }
            machine
        }

        fn write(&self, name: &str, text: &str) {
            let file = self.0.join(name);
            fs::write(&file, text).expect("the folder is writable");
            fs::set_permissions(file, Permissions::from_mode(0o755))
                .expect("the file was written above");
        }

        fn read(&self, name: &str) -> Option<String> {
            fs::read_to_string(self.0.join(name)).ok()
        }

        fn install(&self, required: &str, optional: &str) -> Result<(), String> {
            let mut shell = Command::new("sh");
            let path = env::var("PATH").expect("PATH is set");
            shell.env("PATH", format!("{}:{path}", self.0.display()));
            install(shell, &self.0.join("policy").display().to_string(), required, optional)
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const NOTES: &str = "echo $* >>notes; ./policy; echo policy says $? >>notes";

    #[test]
    fn no_service_starts_and_nothing_is_left() {
        let machine = Machine::new("install", NOTES);
        machine.install("one two", "unknown known").expect("apt succeeds");
        let notes = "update\npolicy says 101\n\
                     install -y --no-install-recommends one two known\npolicy says 101\n";
        assert_eq!(machine.read("notes").as_deref(), Some(notes));
        assert_eq!(machine.read("policy"), None);
    }

    #[test]
    fn optional_packages_cause_no_update_of_the_lists() {
        let machine = Machine::new("optional", NOTES);
        machine.install("", "unknown").expect("nothing is installed");
        assert_eq!(machine.read("notes"), None);
        machine.install("", "known").expect("apt succeeds");
        assert!(machine.read("notes").is_some_and(|notes| notes.starts_with("install ")));
    }

    #[test]
    fn the_earlier_policy_is_restored_also_after_a_failure() {
        let machine = Machine::new("failure", "echo no $1; exit 7");
        machine.write("policy", "#!/bin/sh\nexit 104\n");
        let failed = machine.install("one", "").expect_err("apt fails");
        assert!(failed.contains("no update\n") && failed.contains("no install\n"), "{failed}");
        assert!(failed.contains("exit status: 7"), "{failed}");
        assert_eq!(machine.read("policy").as_deref(), Some("#!/bin/sh\nexit 104\n"));
        assert_eq!(machine.read("policy.before-xtask"), None);
    }

    #[test]
    fn the_policy_of_a_killed_run_is_not_taken_for_the_earlier_one() {
        let machine = Machine::new("killed", "kill -KILL $PPID");
        machine.write("policy", "#!/bin/sh\nexit 104\n");
        machine.install("one", "").expect_err("the script is killed");
        assert!(machine.read("policy").is_some_and(|policy| policy.contains("exit 101")));
        machine.write("apt-get", "#!/bin/sh\n");
        machine.install("one", "").expect("apt succeeds");
        assert_eq!(machine.read("policy").as_deref(), Some("#!/bin/sh\nexit 104\n"));
    }

    #[test]
    fn a_package_is_named_once() {
        let tool = |name, package| Tool::program(name, package);
        let absent =
            [tool("b", "two"), tool("a", "one"), tool("c", "two"), tool("d", "x").not_required()];
        assert_eq!(packages(&absent), ["one two", "x"]);
    }
}
