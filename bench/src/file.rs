//! Files: Tenure beside the bare system calls, a pipe, and another crate's file lock.

use std::fs::{self, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use distributed_lock_core::traits::{DistributedLock as _, LockHandle as _, LockProvider as _};
use distributed_lock_file::FileLockProvider;
use tenure_core::Locks;
use tenure_core::blocking::block_on;
use tenure_file::FileStore;

use crate::figures::{Table, median, median_of, readable, times, us};

const HANDOVERS: usize = 20_000;
/// Rounds of a free lock, and its pairs in each.
const ROUNDS: u32 = 1501;
const BATCH: u32 = 100;
/// Calls that are timed one by one.
const VERBS: u32 = 1_000_000;

pub(crate) fn run(table: &mut Table) {
    let folder = tempfile::tempdir().unwrap();
    let floor = free(table, folder.path());
    many_keys(table, folder.path(), floor);
    longest(table, folder.path());
    hand_over(table, folder.path());
}

/// Returns the time of the floor.
fn free(table: &mut Table, folder: &Path) -> Duration {
    let path = folder.join("floor");
    let locks = Locks::new(FileStore::open(folder.join("store")).unwrap());
    let mutex = locks.mutex("invoices/42");
    let lock = || block_on(async { mutex.lock().await.unwrap().release().await.unwrap() });
    // Both take turns in short rounds: an interruption affects one round only.
    let (mut floor, mut ours) = (Spent::default(), Spent::default());
    for _ in 0..ROUNDS {
        floor.round(|| self::floor(&path));
        ours.round(lock);
    }
    let ((floor, floor_used), (ours, ours_used)) = (floor.median(), ours.median());
    let peer = peer(&folder.join("peer"));
    table.row(
        "file: lock + release: open + flock + pwrite + unlock + close, the floor",
        us(floor),
        "1",
        "–",
    );
    table.row(
        "file: lock + release",
        us(ours),
        format!("{:.2} × the floor", times(ours, floor)),
        "≤ 4 ×",
    );
    table.row("file: lock + release, processor time, the floor", us(floor_used), "1", "–");
    table.row(
        "file: lock + release, processor time",
        us(ours_used),
        format!("{:.2} × the floor", times(ours_used, floor_used)),
        "≤ 4 ×",
    );
    table.row(
        "file: lock + release, `distributed-lock`",
        us(peer),
        format!("{:.2} × ours", times(peer, ours)),
        "> 1 ×",
    );
    floor
}

/// The time and the processor time of each round. On a busy machine only the second is comparable.
#[derive(Default)]
struct Spent {
    took: Vec<Duration>,
    used: Vec<Duration>,
}

impl Spent {
    fn round(&mut self, mut act: impl FnMut()) {
        let (start, before) = (Instant::now(), used());
        for _ in 0..BATCH {
            act();
        }
        self.took.push(start.elapsed() / BATCH);
        self.used.push(used().saturating_sub(before) / BATCH);
    }

    fn median(&mut self) -> (Duration, Duration) {
        (median(&mut self.took), median(&mut self.used))
    }
}

fn floor(path: &Path) {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
    file.lock().unwrap();
    file.write_all_at(&42_u64.to_le_bytes(), 0).unwrap();
    file.unlock().unwrap();
}

fn peer(folder: &Path) -> Duration {
    fs::create_dir(folder).unwrap();
    let lock = FileLockProvider::new(folder).unwrap().create_lock("invoices-42");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut rounds = Vec::new();
        for _ in 0..301 {
            let start = Instant::now();
            for _ in 0..500 {
                lock.acquire(None).await.unwrap().release().await.unwrap();
            }
            rounds.push(start.elapsed() / 500);
        }
        median(&mut rounds)
    })
}

fn many_keys(table: &mut Table, folder: &Path, floor: Duration) {
    const KEYS: u32 = 10_000;
    let locks = Locks::new(FileStore::open(folder.join("many")).unwrap());
    let start = Instant::now();
    for key in 0..KEYS {
        let guard = block_on(locks.mutex(format!("orders/{key}")).lock()).unwrap();
        block_on(guard.release()).unwrap();
    }
    let took = start.elapsed() / KEYS;
    table.row(
        "file: 10,000 keys in turn",
        us(took),
        format!("{:.2} × the floor", times(took, floor)),
        "≤ 4 ×",
    );
}

/// The longest call: now and then one of them rewrites the file of a key.
fn longest(table: &mut Table, folder: &Path) {
    let path = folder.join("longest-floor");
    let locks = Locks::new(FileStore::open(folder.join("longest")).unwrap());
    let mutex = locks.mutex("invoices/42");
    let (mut floor, mut ours) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..VERBS / 2 {
        for _ in 0..2 {
            floor = floor.max(timed(|| self::floor(&path)).0);
        }
        let (took, guard) = timed(|| block_on(mutex.lock()).unwrap());
        let (let_go, ()) = timed(|| block_on(guard.release()).unwrap());
        ours = ours.max(took).max(let_go);
    }
    let beside = format!("{} for the longest of as many floors", readable(floor));
    table.row("file: the longest verb of a million", readable(ours), beside, "< 2 ms");
}

fn timed<T>(act: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let done = act();
    (start.elapsed(), done)
}

fn hand_over(table: &mut Table, folder: &Path) {
    let pipe = ping_pong();
    let lock = between_processes(&folder.join("handover"));
    table.row(
        "file: hand-over between two processes: one hop through a pipe, the floor",
        us(pipe),
        "1",
        "–",
    );
    table.row(
        "file: hand-over between two processes",
        us(lock),
        format!("{:.2} × the floor", times(lock, pipe)),
        "≤ 5 ×",
    );
}

/// The time from the call of `release` in one process to the return of `lock` in the other.
fn between_processes(store: &Path) -> Duration {
    let mut other = start(&["__turns", store.to_str().unwrap()]);
    let mut ready = [0];
    other.stdout.as_mut().unwrap().read_exact(&mut ready).unwrap();
    other.stdin.take().unwrap().write_all(b"!").unwrap();
    let mut turns = turns(store, 0);
    let mut theirs = String::new();
    other.stdout.as_mut().unwrap().read_to_string(&mut theirs).unwrap();
    assert!(other.wait().unwrap().success());
    turns.extend(theirs.lines().map(Turn::parse));
    turns.sort_by_key(|turn| turn.token);
    let mut waits: Vec<Duration> = turns
        .windows(2)
        .filter(|pair| pair[0].process != pair[1].process)
        .map(|pair| Duration::from_nanos(pair[1].held.saturating_sub(pair[0].released)))
        .collect();
    assert!(waits.len() > HANDOVERS, "the processes took turns: {} times", waits.len());
    median(&mut waits)
}

/// One hold, from its start to the call of its release, by a clock that all processes share.
struct Turn {
    token: u64,
    process: u64,
    held: u64,
    released: u64,
}

impl Turn {
    fn parse(line: &str) -> Self {
        let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Self { token: next(), process: next(), held: next(), released: next() }
    }
}

fn turns(store: &Path, process: u64) -> Vec<Turn> {
    let locks = Locks::new(FileStore::open(store).unwrap());
    let mutex = locks.mutex("k");
    let turn = |_| {
        block_on(async {
            let guard = mutex.lock().await.unwrap();
            let (held, token) = (now(), guard.token().get());
            let released = now();
            guard.release().await.unwrap();
            Turn { token, process, held, released }
        })
    };
    (0..HANDOVERS).map(turn).collect()
}

/// The processor time of this process on all cores.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

fn ping_pong() -> Duration {
    let mut other = start(&["__echo"]);
    let (mut to, mut from) = (other.stdin.take().unwrap(), other.stdout.take().unwrap());
    let mut byte = [0];
    let time = median_of(HANDOVERS, 1, || {
        to.write_all(b"!").unwrap();
        from.read_exact(&mut byte).unwrap();
    });
    drop(to);
    assert!(other.wait().unwrap().success());
    time / 2
}

fn start(arguments: &[&str]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Does the work of the second process, if this is it.
pub(crate) fn other_process(arguments: &[String]) -> bool {
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    match arguments {
        [role] if role == "__echo" => {
            let mut byte = [0];
            while stdin.read(&mut byte).unwrap() == 1 {
                stdout.write_all(&byte).unwrap();
                stdout.flush().unwrap();
            }
        }
        [role, store] if role == "__turns" => {
            stdout.write_all(b"!").unwrap();
            stdout.flush().unwrap();
            stdin.read_exact(&mut [0]).unwrap();
            for Turn { token, process, held, released } in turns(Path::new(store), 1) {
                writeln!(stdout, "{token} {process} {held} {released}").unwrap();
            }
        }
        _ => return false,
    }
    true
}
