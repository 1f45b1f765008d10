//! What the tests share: a directory, tickets, a way to wait, and a second process.

#![allow(dead_code, reason = "not every test needs all of it")]

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
    Engine as _, Key, Leave, Patience, Place, Share, Standing, Ticket, TicketId, Wake,
};
use tenure_file::FileStore;

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

    /// The file of the book that this key is in: the one that grows when somebody joins.
    pub(crate) fn book(&self, name: &str) -> PathBuf {
        let other = Self::new();
        let store = other.open();
        let before = other.books();
        block_on(store.join(&ticket(name), Patience::Wait)).unwrap();
        let grown = other.books().into_iter().zip(before).find(|(now, before)| now != before);
        self.0.join("books").join(grown.expect("one of them grows").0.0)
    }

    /// Every book, with its length.
    fn books(&self) -> BTreeMap<OsString, u64> {
        let books = std::fs::read_dir(self.0.join("books")).unwrap().map(Result::unwrap);
        books.map(|book| (book.file_name(), book.metadata().unwrap().len())).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _already_gone = std::fs::remove_dir_all(&self.0);
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
        owner: "a test".into(),
        note: "".into(),
        floor: 0,
    }
}

/// A ticket that takes `take` of `of`.
pub(crate) fn part(name: &str, take: u32, of: u32) -> Ticket {
    Ticket { share: Share::new(take, of).unwrap(), ..ticket(name) }
}

pub(crate) fn join(store: &FileStore, ticket: &Ticket) -> Place {
    block_on(store.join(ticket, Patience::Wait)).unwrap().unwrap()
}

pub(crate) fn leave(store: &FileStore, ticket: &Ticket) -> tenure_core::Left {
    block_on(store.leave(ticket, Leave::Now)).unwrap()
}

/// Waits until the ticket is served, and tells its number.
pub(crate) fn wait(store: &FileStore, ticket: &Ticket) -> u64 {
    loop {
        match block_on(store.watch(ticket, Standing::Waiting)).unwrap() {
            Wake::Served(number) => return number,
            Wake::Look => {
                let place = block_on(store.renew(ticket)).unwrap().expect("it is in the line");
                if place.standing == Standing::Holding {
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

/// Whether a future is ready at once.
pub(crate) fn is_ready<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Another process, which does as it is told.
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

    /// The same, where the directory is a disk of its own with room for this many pages.
    /// `None`: this user cannot have one.
    pub(crate) fn start_on_a_small_disk(dir: &Dir, pages: u32) -> Option<Self> {
        let disk = format!("mode=700,nr_blocks={pages} tmpfs {}", dir.path().display());
        Self::start_where(dir, &format!("mount -t tmpfs -o {disk}"))
    }

    /// The same, where the machine tells another id of its start, as a container might.
    pub(crate) fn start_in_another_boot(dir: &Dir, id: &Path) -> Option<Self> {
        let boot = "/proc/sys/kernel/random/boot_id";
        Self::start_where(dir, &format!("mount --bind {} {boot}", id.display()))
    }

    /// The same, after a command that changes what this one process finds mounted.
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

    /// The same, as another user, whose files are for nobody else by habit. `None`: that needs root.
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

    /// The same, where a call to the system kills it: `inject` is how strace is told which.
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

    /// With SIGKILL, as `kill -9` does.
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
        let _already_dead = self.child.kill();
        let _already_waited_for = self.child.wait();
    }
}

/// The other process's side: a line is a command.
pub(crate) fn serve() {
    let Ok(dir) = std::env::var("TENURE_FILE_TEST_DIR") else { return };
    let store = match FileStore::open(&dir) {
        Ok(store) => store,
        Err(error) => return println!("\n@refused: {error}"),
    };
    let mut held = Vec::new();
    let mut locked = Vec::new();
    let mut children = Vec::new();
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["join", name, ref share @ ..] => {
                let ticket = match share {
                    [take, of] => part(name, take.parse().unwrap(), of.parse().unwrap()),
                    _ => ticket(name),
                };
                let place = join(&store, &ticket);
                held.push(ticket);
                format!("{:?} {}", place.standing, place.number)
            }
            ["wait"] => wait(&store, held.last().unwrap()).to_string(),
            ["leave"] => format!("{:?}", leave(&store, &held.pop().unwrap())),
            ["lost"] => {
                let watch = store.watch(held.last().unwrap(), Standing::Holding);
                format!("{:?}", block_on(watch).unwrap())
            }
            ["child"] => {
                let child =
                    Command::new("sleep").arg("1000").stdout(Stdio::null()).spawn().unwrap();
                children.push(child);
                children.last().unwrap().id().to_string()
            }
            ["count", name, path, times] => {
                count(&store, name, Path::new(path), times.parse().unwrap());
                "counted".to_owned()
            }
            ["sign", name, path, times] => {
                sign(&store, name, Path::new(path), times.parse().unwrap());
                "signed".to_owned()
            }
            ["lock", path] => {
                let file = std::fs::File::open(path).unwrap();
                file.lock_shared().unwrap();
                locked.push(file);
                "locked".to_owned()
            }
            ["work", name, times] => {
                work(&store, name, times.parse().unwrap());
                "worked".to_owned()
            }
            ["many", name, times] => {
                let next = || block_on(store.tally(&key(name), 1, None)).unwrap().value;
                let numbers: Vec<_> =
                    (0..times.parse().unwrap()).map(|_: u32| next().to_string()).collect();
                numbers.join(" ")
            }
            ["damage", book] => damage(&store, Path::new(&dir), book),
            ["fill"] => fill(&store, &Path::new(&dir).join("filler")),
            ["next", name] => block_on(store.tally(&key(name), 1, None)).unwrap().value.to_string(),
            _ => panic!("{line:?} is no command"),
        };
        println!("\n@{answer}");
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

/// Signs a file and finds the own signature still there, again and again. Half a signature may be
/// there from one who was killed, but nobody else's may come.
fn sign(store: &FileStore, name: &str, path: &Path, times: u32) {
    for turn in 0..times {
        let ticket = ticket(name);
        if join(store, &ticket).standing == Standing::Waiting {
            wait(store, &ticket);
        }
        let signature = format!("{} {turn}", std::process::id());
        std::fs::write(path, &signature).unwrap();
        thread::yield_now();
        assert_eq!(std::fs::read_to_string(path).unwrap(), signature, "two are in");
        leave(store, &ticket);
    }
}

/// Fills the disk, joins until that is refused, makes room and joins again.
fn fill(store: &FileStore, filler: &Path) -> String {
    let mut file = std::fs::File::create(filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let mut joined = 0;
    let error = loop {
        match block_on(store.join(&ticket("k"), Patience::Wait)) {
            Ok(_) => joined += 1,
            Err(error) => break error,
        }
    };
    let kept = block_on(store.line(&key("k"))).unwrap().len() == joined;
    drop(file);
    std::fs::remove_file(filler).unwrap();
    join(store, &ticket("k"));
    let more = block_on(store.line(&key("k"))).unwrap().len() == joined + 1;
    format!("{kept} {more} {:?} {error}", error.kind())
}

/// Finds a damaged book on a full disk, again and again, and once more when there is room. Tells
/// how many files were set aside by then.
fn damage(store: &FileStore, dir: &Path, book: &str) -> String {
    let aside = || {
        let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with("damaged-")).count()
    };
    std::fs::write(dir.join("books").join(book), vec![1; 100_000]).unwrap();
    let filler = dir.join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    for _ in 0..10 {
        assert!(block_on(store.join(&ticket("k"), Patience::Wait)).is_err());
    }
    let refused = aside();
    drop(file);
    std::fs::remove_file(filler).unwrap();
    join(store, &ticket("k"));
    format!("{refused} refused, {} joined", aside())
}

/// Counts in a file without any care, but for the lock.
fn count(store: &FileStore, name: &str, path: &Path, times: u32) {
    let mut last = 0;
    for _ in 0..times {
        let ticket = ticket(name);
        let place = join(store, &ticket);
        let number = match place.standing {
            Standing::Holding => place.number,
            Standing::Waiting => wait(store, &ticket),
        };
        assert!(number > last, "numbers grow");
        last = number;
        let text = std::fs::read_to_string(path).unwrap();
        let (value, token) = text.split_once(' ').unwrap();
        assert!(number > token.parse().unwrap(), "numbers grow in the order of the holders");
        let value: u64 = value.parse().unwrap();
        std::fs::write(path, format!("{} {number}", value + 1)).unwrap();
        leave(store, &ticket);
    }
}
