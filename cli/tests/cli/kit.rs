//! Helpers of the tests: a store for each test, commands on it, and waiting for conditions.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tenure_servers::have;
use tenure_servers::redis::{REDIS, Server, Setup};

/// Time limit for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A store, and a directory for the files of a test.
pub(crate) struct Store {
    dir: TempDir,
    url: String,
}

impl Store {
    /// A file store in a directory that exists.
    pub(crate) fn new() -> Self {
        let store = Self::unmade();
        DirBuilder::new().mode(0o700).create(store.path("store")).unwrap();
        store
    }

    /// A file store whose directory is created with the first lock.
    pub(crate) fn unmade() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let url = format!("file:{}", dir.path().join("store").display());
        Self { dir, url }
    }

    /// The store at this URL.
    pub(crate) fn at(url: impl Into<String>) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), url: url.into() }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `tenure` with these arguments, on this store.
    pub(crate) fn tenure(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        self.dress(command.args(words));
        command
    }

    /// Has a command that starts `tenure` use this store.
    pub(crate) fn dress(&self, command: &mut Command) {
        command
            .env("TENURE_ON", self.url())
            .env("LOG", self.path("log"))
            .env("TERM", "xterm")
            .env_remove("NO_COLOR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// Runs `tenure` to its end.
    pub(crate) fn end(&self, words: &[&str]) -> End {
        end(&mut self.tenure(words))
    }

    /// Runs `tenure`, which must succeed, and returns its output.
    pub(crate) fn output(&self, words: &[&str]) -> String {
        let end = self.end(words);
        assert_eq!((end.code, end.err.as_str()), (0, ""), "{words:?}");
        end.out
    }

    /// Starts `tenure`; drop kills it.
    pub(crate) fn start(&self, words: &[&str]) -> Running {
        Running::of(&mut self.tenure(words))
    }

    /// The log of the test's commands.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn log_has(&self, text: &str) {
        eventually(&format!("`{text}` in the log"), || self.log().contains(text));
    }

    /// Waits until the line of a key has `count` tickets.
    pub(crate) fn line_has(&self, key: &str, count: usize) {
        eventually(&format!("{count} tickets in the line"), || self.line(key).len() == count);
    }

    /// The line of a key, as JSON.
    pub(crate) fn line(&self, key: &str) -> Vec<String> {
        let end = self.end(&["line", "--json", key]);
        // The process that is waited for may not have created the store yet.
        assert!(end.code == 0 || end.err.contains("there is no store"), "{end:?}");
        end.out.lines().map(String::from).collect()
    }
}

/// Starts a Redis for one test. `None`, with a message, where there is no Redis.
pub(crate) fn redis(setup: Setup) -> Option<(Server, Store)> {
    if !have(&[REDIS]) {
        return None;
    }
    let server = setup.start().unwrap();
    let store = Store::at(server.url());
    Some((server, store))
}

/// How a process ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn end(command: &mut Command) -> End {
    of(command.output().unwrap())
}

fn of(output: Output) -> End {
    End {
        code: code(output.status),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The exit code, or 1000 plus the number of the signal.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(1000 + status.signal()?)).unwrap()
}

/// A process that drop kills.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn of(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id().try_into().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid()).unwrap(), signal).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> End {
        of(self.0.take().unwrap().wait_with_output().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let output = child.wait_with_output();
            if thread::panicking() {
                println!("its output by then: {output:?}");
            }
        }
    }
}

/// Waits for a condition.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "timed out: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process works; a zombie does not.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = stat(format!("/proc/{pid}"));
    !stat.is_empty() && !stat.starts_with(['Z', 'X'])
}

/// Whether each thread of a process is stopped.
pub(crate) fn stands_still(pid: i32) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    threads.all(|thread| stat(thread.path()).starts_with('T'))
}

/// The parent of a process; zero if that is gone.
pub(crate) fn parent(pid: i32) -> i32 {
    let field = stat(format!("/proc/{pid}")).split(' ').nth(1).and_then(|pid| pid.parse().ok());
    field.unwrap_or(0)
}

/// The fields of `stat` after the name of a process or thread; the first is its state. Empty if it
/// is gone.
fn stat(directory: impl AsRef<Path>) -> String {
    let stat = fs::read_to_string(directory.as_ref().join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().unwrap_or_default().to_owned()
}

/// The children of a process.
pub(crate) fn children(pid: i32) -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|other| parent(*other) == pid).collect()
}

/// Writes a file with this mode, for example a script.
pub(crate) fn write(path: &Path, text: &str, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The text of a field of a JSON object, or its number.
pub(crate) fn field<'a>(object: &'a str, name: &str) -> &'a str {
    let start = format!("\"{name}\":");
    let rest = &object
        [object.find(&start).unwrap_or_else(|| panic!("{name} in {object}")) + start.len()..];
    match rest.strip_prefix('"') {
        Some(text) => &text[..text.find('"').unwrap()],
        None => &rest[..rest.find([',', '}']).unwrap()],
    }
}

/// The names of the fields of a JSON object whose texts have no quotes, in order.
pub(crate) fn fields(object: &str) -> Vec<&str> {
    let inner = object.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let pairs = inner.unwrap_or_else(|| panic!("an object: {object}")).split(",\"");
    pairs.map(|pair| pair.trim_start_matches('"').split('"').next().unwrap()).collect()
}
