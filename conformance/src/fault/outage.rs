//! An outage: a client in a process of its own goes on asking while its store is in trouble, and its memory is watched.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_core::Locks;
use tokio::task::JoinSet;

/// How many attempts an outage sees; more are asked for by this variable.
const ATTEMPTS: u64 = 10_000;
const ATTEMPTS_VARIABLE: &str = "TENURE_OUTAGE_ATTEMPTS";
/// Before it begins the client has asked so often that all it keeps is there, and each of these attempts may take so long.
const BEFORE: u64 = 1000;
const BEFORE_PATIENCE: Duration = Duration::from_secs(9);
/// What a client may grow by.
const GROWTH_MAX_KIB: u64 = 50 * 1024;
/// One that has grown by so much is stopped: the figure is bad enough.
const GROWTH_END_KIB: u64 = 1024 * 1024;
const URL_VARIABLE: &str = "TENURE_OUTAGE_URL";
const TASKS_VARIABLE: &str = "TENURE_OUTAGE_TASKS";
const PATIENCE_VARIABLE: &str = "TENURE_OUTAGE_PATIENCE_US";
const MARK: &str = "outage> ";

/// What a client meets, whose memory must stay flat.
#[derive(Clone, Copy, Debug)]
pub struct Outage<'a> {
    /// Where its locks are.
    pub url: &'a str,
    /// How many callers it has.
    pub tasks: u64,
    /// How long each of its callers waits.
    pub patience: Duration,
    /// The test of this program that calls [`be_client`](Self::be_client) and nothing else.
    pub client: &'a str,
}

impl<'a> Outage<'a> {
    /// Many callers without patience.
    pub fn of(url: &'a str) -> Self {
        let client = "silence::client_process";
        Self { url, tasks: 64, patience: Duration::from_micros(500), client }
    }

    /// Starts the client, then the outage, and panics if the client grows by more than 50 MiB.
    pub fn runs(&self, name: &str, begins: impl FnOnce()) {
        let mut client = self.start();
        let mut said = BufReader::new(client.stdout.take().expect("it was asked for"));
        hear(&mut said, "ready");
        begins();
        writeln!(client.stdin.as_ref().expect("it was asked for"), "go").expect("it listens");
        let report = hear(&mut said, "grew");
        println!("{name}: {report}");
        assert!(client.wait().is_ok_and(|status| status.success()), "the client ends well");
        let grown = report.split(' ').nth(1).and_then(|grown| grown.parse::<u64>().ok());
        let grown = grown.expect("it says by how much it grew");
        assert!(grown <= GROWTH_MAX_KIB, "{name}: it grew by {grown} KiB");
    }

    /// The process of the client, if this is one.
    pub fn be_client(connect: impl AsyncFnOnce(String) -> Locks) {
        let Ok(url) = std::env::var(URL_VARIABLE) else { return };
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let attempts = number(ATTEMPTS_VARIABLE).unwrap_or(ATTEMPTS);
        let tasks = number(TASKS_VARIABLE).expect("it is told");
        let patience = Duration::from_micros(number(PATIENCE_VARIABLE).expect("it is told"));
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime starts");
        runtime.block_on(async {
            let locks = connect(url).await;
            ask_for_locks(&locks, tasks, BEFORE, BEFORE_PATIENCE).await;
            let before = resident_kib();
            println!("{MARK}ready");
            std::io::stdin().lines().next();
            let (peak, began) = (watch_memory(before), Instant::now());
            let held = ask_for_locks(&locks, tasks, attempts, patience).await;
            let grown = peak.load(Ordering::Relaxed).saturating_sub(before);
            let took = began.elapsed();
            println!("{MARK}grew {grown} KiB over {attempts} attempts in {took:.1?}, {held} held");
            std::process::exit(0);
        });
    }

    fn start(&self) -> Child {
        Command::new(std::env::current_exe().expect("this program has a name"))
            .args(["--exact", self.client, "--nocapture", "--test-threads=1"])
            .env(URL_VARIABLE, self.url)
            .env(TASKS_VARIABLE, self.tasks.to_string())
            .env(PATIENCE_VARIABLE, self.patience.as_micros().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again")
    }
}

/// The first line that the client marks, and that begins so.
fn hear(said: &mut BufReader<ChildStdout>, begins: &str) -> String {
    let mut line = String::new();
    while said.read_line(&mut line).expect("it speaks UTF-8") > 0 {
        if let Some((_, words)) = line.split_once(MARK) {
            assert!(words.starts_with(begins), "{words}");
            return words.trim().to_owned();
        }
        line.clear();
    }
    panic!("the client ended before it said {begins}");
}

/// So many attempts, from so many tasks; says how many were held.
async fn ask_for_locks(locks: &Locks, tasks: u64, attempts: u64, patience: Duration) -> u64 {
    let (left, held) = (Arc::new(AtomicU64::new(attempts)), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for task in 0..tasks {
        let (locks, left, held) = (locks.clone(), left.clone(), held.clone());
        callers.spawn(async move {
            let more = |left: u64| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
                let mutex = locks.mutex(format!("key {task}"));
                if let Ok(Ok(guard)) = tokio::time::timeout(patience, mutex.lock()).await {
                    held.fetch_add(1, Ordering::Relaxed);
                    let _unknown = tokio::time::timeout(patience, guard.release()).await;
                }
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.expect("no caller panics");
    }
    held.load(Ordering::Relaxed)
}

/// Looks at this process's memory, and ends it where that has become too much.
fn watch_memory(before: u64) -> Arc<AtomicU64> {
    let peak = Arc::new(AtomicU64::new(before));
    let seen = peak.clone();
    std::thread::spawn(move || {
        loop {
            let now = resident_kib();
            seen.fetch_max(now, Ordering::Relaxed);
            if now > before + GROWTH_END_KIB {
                println!("{MARK}grew {} KiB, and was stopped", now - before);
                std::process::exit(0);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    peak
}

/// What of this process is in memory; nothing where the system does not tell it.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
