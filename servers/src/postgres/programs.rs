//! The programs of one version of PostgreSQL.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use super::deployments::{POSTGRES, POSTGRES_18, WHEEL_BIN};
use super::setup::Version;
use crate::Result;
use crate::folder::Folder;
use crate::server_user::ServerUser;

/// Time limit of libpq for a connection, in seconds.
const CONNECT_MAX_S: &str = "60";

/// The programs of one version, and the user that the servers run as.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    bin: PathBuf,
    user: Option<ServerUser>,
    template: PathBuf,
}

impl Programs {
    /// Returns the programs of Debian's version, or those of the wheel. The first call of a process
    /// creates a data folder, which all servers of the version begin with.
    pub(super) fn of(version: Version) -> Result<Self> {
        static DEBIAN: OnceLock<Result<Programs>> = OnceLock::new();
        static WHEEL: OnceLock<Result<Programs>> = OnceLock::new();
        match version {
            Version::Debian => DEBIAN.get_or_init(Self::debian).clone(),
            Version::Wheel18 => WHEEL.get_or_init(Self::wheel).clone(),
        }
    }

    /// Returns the client, which reads statements from its input, and writes bare rows.
    pub(super) fn psql(&self) -> Command {
        let mut command = Command::new(self.bin.join("psql"));
        command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres"]);
        command.env("PGCONNECT_TIMEOUT", CONNECT_MAX_S);
        command
    }

    /// Returns a program that runs as the user of servers in this folder.
    pub(super) fn in_folder(&self, name: &str, folder: &Folder) -> Command {
        let mut command = Command::new(self.bin.join(name));
        self.put(&mut command, folder);
        command
    }

    /// Makes a program run as the user of servers in this folder.
    pub(super) fn put(&self, command: &mut Command, folder: &Folder) {
        command.current_dir(folder.path());
        if let Some(user) = self.user {
            user.runs(command);
        }
    }

    /// Makes the user of servers the owner of a file or a folder.
    pub(super) fn own(&self, path: &Path) -> Result<()> {
        self.user.map_or(Ok(()), |user| user.owns(path))
    }

    /// Returns a new folder of the user of servers: in memory if its server flushes every write.
    pub(super) fn folder(&self, name: &str, is_durable: bool) -> Result<Folder> {
        let folder = if is_durable { Folder::quick(name) } else { Folder::new(name) }?;
        self.own(folder.path())?;
        Ok(folder)
    }

    /// Creates the data of a server in its folder. It has the user `postgres` without a password.
    pub(super) fn create_data(&self, folder: &Folder) -> Result<()> {
        let mut copy = Command::new("cp");
        copy.arg("-R").arg(&self.template).arg(folder.path().join("data"));
        self.put(&mut copy, folder);
        output(&mut copy, "").map(drop)
    }

    fn debian() -> Result<Self> {
        let postgres = POSTGRES.found().ok_or_else(|| POSTGRES.absent().unwrap_or_default())?;
        let bin = postgres.parent().map(Path::to_owned).unwrap_or_default();
        Self { bin, user: ServerUser::find()?, template: PathBuf::new() }.with_template()
    }

    fn wheel() -> Result<Self> {
        let kept = POSTGRES_18.found().ok_or_else(|| POSTGRES_18.absent().unwrap_or_default())?;
        let user = ServerUser::find()?;
        let mut programs = Self { bin: kept.join(WHEEL_BIN), user, template: PathBuf::new() };
        if user.is_some() {
            // Another user cannot enter the cache of root. The warden removes the copy.
            let copy = programs.folder("postgres-18", false)?.kept().join("wheel");
            output(Command::new("cp").arg("-R").args([&kept, &copy]), "")?;
            programs.bin = copy.join(WHEEL_BIN);
        }
        programs.with_template()
    }

    /// Creates the data folder that servers begin with.
    fn with_template(self) -> Result<Self> {
        let folder = self.folder("postgres-new", false)?;
        let template = folder.path().join("data");
        let mut initdb = self.in_folder("initdb", &folder);
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
        initdb.args(["--no-sync", "--no-instructions", "--pgdata"]).arg(&template);
        output(&mut initdb, "")?;
        // The warden removes the folder.
        let _path = folder.kept();
        Ok(Self { template, ..self })
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
