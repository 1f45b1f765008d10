//! The warden: a script that outlives this process and kills the servers that still run.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, process};

use crate::Result;

/// A file system in memory, on systems that have one.
const MEMORY: &str = "/dev/shm";
/// Minimum free space there, in bytes.
const ROOM_MIN: u64 = 4 << 30;
/// The script of the warden.
const SCRIPT: &str = include_str!("warden.sh");

/// The warden of a process, from the first server on.
pub(crate) struct Warden {
    home: PathBuf,
    /// The same in memory.
    quick: PathBuf,
    shell: Mutex<Child>,
}

/// Returns the warden of this process, and starts it on the first call.
pub(crate) fn warden() -> Result<&'static Warden> {
    static WARDEN: OnceLock<Result<Warden>> = OnceLock::new();
    WARDEN.get_or_init(Warden::start).as_ref().map_err(Clone::clone)
}

/// Whether there is enough space in memory for a few databases.
fn has_room() -> bool {
    rustix::fs::statvfs(MEMORY).is_ok_and(|room| room.f_bavail * room.f_frsize >= ROOM_MIN)
}

impl Warden {
    /// The folder of all folders of this process.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The same for servers that flush every write. On systems without files in memory it is on the
    /// disk.
    pub(crate) fn quick(&self) -> &Path {
        &self.quick
    }

    /// Registers a process to be killed at the end of this process.
    pub(crate) fn watch(&self, pid: u32) -> Result<()> {
        self.order("watch", pid)
    }

    /// Unregisters a process. To be called before it is waited for: after that its pid may be
    /// reused.
    pub(crate) fn forget(&self, pid: u32) -> Result<()> {
        self.order("forget", pid)
    }

    fn start() -> Result<Self> {
        let chance = RandomState::new().hash_one(0);
        let name = format!("tenure-servers-{}-{chance:x}", process::id());
        let home = env::temp_dir().join(&name);
        // A server that runs as another user needs the right to traverse the folder.
        let make = |home: &Path| fs::DirBuilder::new().mode(0o711).create(home);
        make(&home).map_err(|error| format!("{} cannot be created: {error}.", home.display()))?;
        let memory = Path::new(MEMORY).join(&name);
        let quick = if has_room() && make(&memory).is_ok() { memory } else { home.clone() };
        let mut shell = Command::new("sh");
        // A process group of its own: a signal to the group of the tests does not reach it.
        shell.args(["-c", SCRIPT, "warden"]).arg(&home).arg(&quick).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = shell.spawn().map_err(|error| format!("`sh` cannot be started: {error}."))?;
        Ok(Self { home, quick, shell: Mutex::new(shell) })
    }

    fn order(&self, order: &str, pid: u32) -> Result<()> {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = shell.stdin.as_mut().expect("stdin is a pipe, and is never taken");
        orders
            .write_all(format!("{order} {pid}\n").as_bytes())
            .map_err(|error| format!("The warden of this process is gone: {error}."))
    }
}
