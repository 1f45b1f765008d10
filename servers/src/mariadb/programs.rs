//! The programs of MariaDB, and the data that servers begin with.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use super::deployments::{INSTALL, MARIADB};
use crate::Result;
use crate::folder::Folder;
use crate::server_user::ServerUser;

/// Time limit of the client for a connection, in seconds.
const CONNECT_MAX_S: &str = "60";

/// The size of a small file system, in megabytes. New data has 150.
const DISK_MB: u32 = 192;

/// Whether a server may have a [small disk](super::Setup::small_disk) here.
pub fn may_mount() -> bool {
    let mut mount = Command::new("unshare");
    mount.args(["--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"]);
    mount.stdout(Stdio::null()).stderr(Stdio::null());
    mount.status().is_ok_and(|status| status.success())
}

/// The user that the servers run as, and the data that they begin with.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    user: Option<ServerUser>,
    template: PathBuf,
}

impl Programs {
    /// The first call of a process creates a data folder, which all servers begin with.
    pub(super) fn found() -> Result<Self> {
        static PROGRAMS: OnceLock<Result<Programs>> = OnceLock::new();
        PROGRAMS.get_or_init(Self::with_template).clone()
    }

    /// Returns the client, which reads statements from its input, and writes bare rows.
    pub(super) fn client() -> Command {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "--batch", "--skip-column-names", "--raw"]);
        command.arg(format!("--connect-timeout={CONNECT_MAX_S}"));
        command
    }

    /// Returns a program that runs as the user of servers in this folder.
    pub(super) fn in_folder(&self, name: &str, folder: &Folder) -> Command {
        let mut command = Command::new(name);
        command.current_dir(folder.path());
        if let Some(user) = self.user {
            user.runs(&mut command);
        }
        command
    }

    /// Makes the user of servers the owner of a file.
    pub(super) fn own(&self, path: &std::path::Path) -> Result<()> {
        self.user.map_or(Ok(()), |user| user.owns(path))
    }

    /// Returns a new folder of the user of servers: in memory if its server flushes every write.
    pub(super) fn folder(&self, name: &str, is_durable: bool) -> Result<Folder> {
        let folder = if is_durable { Folder::quick(name) } else { Folder::new(name) }?;
        self.user.map_or(Ok(()), |user| user.owns(folder.path()))?;
        Ok(folder)
    }

    /// Creates the data of a server in its folder. It has the user `root` without a password.
    pub(super) fn create_data(&self, folder: &Folder) -> Result<()> {
        let mut copy = self.in_folder("cp", folder);
        copy.arg("-R").arg(&self.template).arg(folder.path().join("data"));
        output(&mut copy, "").map(drop)
    }

    /// Returns a server whose data, in this folder, is on a file system of its own, which no other
    /// process sees.
    pub(super) fn on_small_disk(&self, folder: &Folder) -> Command {
        let user = self.user.map_or_else(String::new, ServerUser::command);
        let script = format!(
            "mount -t tmpfs -o mode=777,size={DISK_MB}m tmpfs data && cp -R \"$0\"/. data \
             && chmod -R a+rwX data && exec {user} \"$@\""
        );
        let mut command = Command::new("unshare");
        command.current_dir(folder.path()).args(["--mount", "sh", "-c", &script]);
        command.arg(&self.template).arg(Self::server());
        command
    }

    /// The path of the server.
    pub(super) fn server() -> &'static str {
        MARIADB.name
    }

    fn with_template() -> Result<Self> {
        let programs = Self { user: ServerUser::find()?, template: PathBuf::new() };
        let folder = programs.folder("mariadb-new", false)?;
        let template = folder.path().join("data");
        let mut install = programs.in_folder(INSTALL.name, &folder);
        install.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        install.args(["--skip-test-db", "--skip-name-resolve"]);
        install.arg(format!("--datadir={}", template.display()));
        // In `/tmp`, another one that starts deletes its temporary files.
        install.arg(format!("--tmpdir={}", folder.path().display()));
        output(&mut install, "")?;
        // The warden removes the folder.
        let _path = folder.kept();
        Ok(Self { template, ..programs })
    }
}

/// Runs a program to its end with this input, and returns its output. Its failure is an error.
pub(super) fn output(command: &mut Command, input: &str) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |error| format!("{name} failed: {error}.");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // Fails if the program ends before it has read everything. Its status is the error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let Output { status, stdout, stderr } = child.wait_with_output().map_err(failed)?;
    if !status.success() {
        let written = String::from_utf8_lossy(&stderr);
        return Err(format!("{name} failed with {status}: {}.", written.trim()));
    }
    Ok(String::from_utf8_lossy(&stdout).trim_end().into())
}
