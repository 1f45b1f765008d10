//! Helpers of the tests: a directory, tickets, waiting, and a second process.

#![allow(dead_code, unused_imports, reason = "not every test needs all of it")]

#[path = "served.rs"]
mod served;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tenure_core::{
    Engine as _, Key, LeaveMode, Note, Owner, Place, Share, Ticket, TicketId, TicketState,
    WaitMode, Wake,
};
use tenure_file::FileStore;

pub(crate) use served::serve;

/// Leaves a test aloud where a tool is missing; a test that must not be left out fails.
pub(crate) fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
    assert!(std::env::var_os("TENURE_REQUIRE").is_none_or(|all| all != "all"), "it is required");
}

/// A directory that is removed in the end.
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("tenure-file-{}-{count}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn open(&self) -> FileStore {
        FileStore::open(&self.0).unwrap()
    }

    /// Returns the file of the book that has this key: the one that grows when a ticket joins.
    pub(crate) fn book(&self, name: &str) -> PathBuf {
        let other = Self::new();
        let store = other.open();
        let before = other.books();
        block_on(store.join(&ticket(name), WaitMode::Wait)).unwrap();
        let grown = other.books().into_iter().zip(before).find(|(now, before)| now != before);
        self.0.join("books").join(grown.expect("one of them grows").0.0)
    }

    /// Returns each book with its length.
    fn books(&self) -> BTreeMap<OsString, u64> {
        let books = std::fs::read_dir(self.0.join("books")).unwrap().map(Result::unwrap);
        books.map(|book| (book.file_name(), book.metadata().unwrap().len())).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // The test may have removed it.
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn ticket(name: &str) -> Ticket {
    Ticket {
        id: TicketId::fresh(),
        key: key(name),
        share: Share::WHOLE,
        ttl: Duration::from_secs(30),
        owner: Owner::shortened("a test"),
        note: Note::default(),
        floor: 0,
    }
}

/// Returns a ticket that takes `take` of `of`.
pub(crate) fn part(name: &str, take: u32, of: u32) -> Ticket {
    Ticket { share: Share::new(take, of).unwrap(), ..ticket(name) }
}

pub(crate) fn join(store: &FileStore, ticket: &Ticket) -> Place {
    block_on(store.join(ticket, WaitMode::Wait)).unwrap().unwrap()
}

pub(crate) fn leave(store: &FileStore, ticket: &Ticket) -> tenure_core::LeaveOutcome {
    block_on(store.leave(ticket, LeaveMode::Now)).unwrap()
}

/// Waits until the ticket is served, and returns its number.
pub(crate) fn wait(store: &FileStore, ticket: &Ticket) -> u64 {
    loop {
        match block_on(store.watch(ticket, TicketState::Waiting)).unwrap() {
            Wake::Served(number) => return number,
            Wake::Look => {
                let place = block_on(store.renew(ticket)).unwrap().expect("it is in the line");
                if place.state == TicketState::Holding {
                    return place.number;
                }
            }
        }
    }
}

struct Unpark(Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker: Waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Polls a future once, and returns its result if it is ready.
pub(crate) fn is_ready<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Another process, which carries out the test's commands.
pub(crate) struct Other {
    pub(crate) child: Child,
    tell: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Other {
    /// Runs the test `helper` of this binary, which calls [`serve`].
    pub(crate) fn start(dir: &Dir) -> Self {
        Self::run(&mut Command::new(std::env::current_exe().unwrap()), dir)
    }

    /// The same, where the directory is a file system of its own with this many pages. Returns
    /// `None` if this user may not mount one.
    pub(crate) fn start_on_a_small_disk(dir: &Dir, pages: u32) -> Option<Self> {
        let disk = format!("mode=700,nr_blocks={pages} tmpfs {}", dir.path().display());
        Self::start_where(dir, &format!("mount -t tmpfs -o {disk}"))
    }

    /// The same, where the machine has another boot id, as in a container.
    pub(crate) fn start_in_another_boot(dir: &Dir, id: &Path) -> Option<Self> {
        let boot = "/proc/sys/kernel/random/boot_id";
        Self::start_where(dir, &format!("mount --bind {} {boot}", id.display()))
    }

    /// The same, after a command that changes the mounts of this one process.
    fn start_where(dir: &Dir, mount: &str) -> Option<Self> {
        let alone = |command: &str| {
            let mut unshare = Command::new("unshare");
            unshare.args(["--mount", "sh", "-c", command, "sh"]);
            unshare
        };
        let possible = alone(mount).status().is_ok_and(|status| status.success());
        possible.then(|| {
            let mut command = alone(&format!("{mount} && exec \"$@\""));
            Self::run(command.arg(std::env::current_exe().unwrap()), dir)
        })
    }

    /// The same, as another user with the umask 077. Returns `None` if this process is not root.
    pub(crate) fn start_as(dir: &Dir, user: u32, group: u32) -> Option<Self> {
        let (user, group) = (format!("--reuid={user}"), format!("--regid={group}"));
        let become_user = |program: &Path| {
            let mut setpriv = Command::new("setpriv");
            setpriv.args([&user, &group]).args(["--clear-groups", "sh", "-c"]);
            setpriv.args(["umask 077; exec \"$@\"", "sh"]).arg(program);
            setpriv
        };
        let possible = become_user(Path::new("true")).status().is_ok_and(|it| it.success());
        possible.then(|| Self::run(&mut become_user(&program_for_all()), dir))
    }

    /// The same under strace, which kills or stops it at a system call. `what` has strace's
    /// arguments.
    pub(crate) fn start_traced(dir: &Dir, log: &Path, what: &[&str]) -> Option<Self> {
        let possible = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
        possible.is_ok_and(|status| status.success()).then(|| {
            let mut strace = Command::new("strace");
            strace.args(["-f", "-o"]).arg(log).args(what).arg(std::env::current_exe().unwrap());
            Self::run(&mut strace, dir)
        })
    }

    fn run(command: &mut Command, dir: &Dir) -> Self {
        let mut child = command
            .args(["helper", "--exact", "--nocapture", "--test-threads=1"])
            .env("TENURE_FILE_TEST_DIR", dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let tell = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, tell, answers }
    }

    pub(crate) fn tell(&mut self, what: &str) {
        writeln!(self.tell.as_mut().unwrap(), "{what}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        loop {
            let line = self.answers.next().expect("the other process goes on").unwrap();
            if let Some(answer) = line.strip_prefix('@') {
                return answer.to_owned();
            }
        }
    }

    /// Its answer; `None`: it ended instead.
    pub(crate) fn last_answer(&mut self) -> Option<String> {
        let mut lines = self.answers.by_ref().map_while(Result::ok);
        lines.find_map(|line| line.strip_prefix('@').map(str::to_owned))
    }

    pub(crate) fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.answer()
    }

    /// Kills it with SIGKILL, as `kill -9` does.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    pub(crate) fn end(mut self) {
        self.tell = None;
        self.answers.by_ref().for_each(drop);
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended before, and its status may have been read.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Joins and leaves, so that the book gets longer.
pub(crate) fn work(store: &FileStore, name: &str, times: u32) {
    for _ in 0..times {
        let ticket = ticket(name);
        join(store, &ticket);
        leave(store, &ticket);
    }
}

/// This program, where every user can run it.
fn program_for_all() -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    static COPY: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let copy = COPY.get_or_init(|| {
        let path = std::env::temp_dir().join(format!("tenure-file-program-{}", std::process::id()));
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    });
    copy.clone()
}
