//! A warden outlives its process by a moment: it kills the servers that were left running.

use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::{env, fs, process};

use crate::Result;

/// Where files are in memory, on systems that have it.
const MEMORY: &str = "/dev/shm";
/// So many bytes at least must be free there.
const ROOM_MIN: u64 = 4 << 30;
/// What the shell does; the file says why.
const SCRIPT: &str = include_str!("warden.sh");

/// One for each process, from its first server to its end.
pub(crate) struct Warden {
    home: PathBuf,
    /// The same, where files are in memory.
    quick: PathBuf,
    shell: Mutex<Child>,
}

/// The warden of this process.
pub(crate) fn warden() -> Result<&'static Warden> {
    static WARDEN: OnceLock<Result<Warden>> = OnceLock::new();
    WARDEN.get_or_init(Warden::start).as_ref().map_err(Clone::clone)
}

/// Whether files in memory may grow as those of a few databases do.
fn has_room() -> bool {
    rustix::fs::statvfs(MEMORY).is_ok_and(|room| room.f_bavail * room.f_frsize >= ROOM_MIN)
}

impl Warden {
    /// The folder of all folders of this process.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// The same for a server that waits for its disk at every step. Where no files are in memory, it is on the disk.
    pub(crate) fn quick(&self) -> &Path {
        &self.quick
    }

    /// From now on this process is killed when ours has ended.
    pub(crate) fn watch(&self, pid: u32) -> Result<()> {
        self.order("watch", pid)
    }

    /// From now on the number may be another's. To be said before the process is waited for.
    pub(crate) fn forget(&self, pid: u32) -> Result<()> {
        self.order("forget", pid)
    }

    fn start() -> Result<Self> {
        let chance = RandomState::new().hash_one(0);
        let name = format!("tenure-servers-{}-{chance:x}", process::id());
        let home = env::temp_dir().join(&name);
        // A server that runs as another user must be able to pass, and no more.
        let make = |home: &Path| fs::DirBuilder::new().mode(0o711).create(home);
        make(&home).map_err(|error| format!("{} cannot be made: {error}.", home.display()))?;
        let memory = Path::new(MEMORY).join(&name);
        let quick = if has_room() && make(&memory).is_ok() { memory } else { home.clone() };
        let mut shell = Command::new("sh");
        // In a group of its own, it is not hit by what ends the tests' group.
        shell.args(["-c", SCRIPT, "warden"]).arg(&home).arg(&quick).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = shell.spawn().map_err(|error| format!("`sh` cannot be started: {error}."))?;
        Ok(Self { home, quick, shell: Mutex::new(shell) })
    }

    fn order(&self, order: &str, pid: u32) -> Result<()> {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let orders = shell.stdin.as_mut().expect("it was asked for as a pipe, and is never taken");
        orders
            .write_all(format!("{order} {pid}\n").as_bytes())
            .map_err(|error| format!("The warden of this process is gone: {error}."))
    }
}
