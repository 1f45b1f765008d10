//! An outage: a client process keeps asking while its store is in trouble, and its memory is
//! measured.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_core::Locks;
use tokio::task::JoinSet;

/// Attempts during an outage. This variable sets another number.
const ATTEMPTS: u64 = 10_000;
const ATTEMPTS_VARIABLE: &str = "TENURE_OUTAGE_ATTEMPTS";
/// Attempts before the outage, after which all caches of the client are filled, and the time limit
/// of each.
const BEFORE: u64 = 1000;
const BEFORE_PATIENCE: Duration = Duration::from_secs(9);
/// Maximum growth of the memory of a client.
const GROWTH_MAX_KIB: u64 = 50 * 1024;
/// Growth at which the client is stopped, since the test has failed.
const GROWTH_END_KIB: u64 = 1024 * 1024;
const URL_VARIABLE: &str = "TENURE_OUTAGE_URL";
const TASKS_VARIABLE: &str = "TENURE_OUTAGE_TASKS";
const PATIENCE_VARIABLE: &str = "TENURE_OUTAGE_PATIENCE_US";
const MARK: &str = "outage> ";

/// An outage during which the memory of a client must stay flat.
#[derive(Clone, Copy, Debug)]
pub struct Outage<'a> {
    /// The URL of its store.
    pub url: &'a str,
    /// The number of its callers.
    pub tasks: u64,
    /// The time limit of each caller.
    pub patience: Duration,
    /// The test of this program that only calls [`be_client`](Self::be_client).
    pub client: &'a str,
}

impl<'a> Outage<'a> {
    /// An outage with many callers that have a short time limit.
    pub fn of(url: &'a str) -> Self {
        let client = "silence::client_process";
        Self { url, tasks: 64, patience: Duration::from_micros(500), client }
    }

    /// Starts the client, then the outage. Panics if the client grows by more than
    /// `GROWTH_MAX_KIB`.
    pub fn runs(&self, name: &str, begins: impl FnOnce()) {
        let mut client = self.start();
        let mut said = BufReader::new(client.stdout.take().expect("the pipe was requested"));
        hear(&mut said, "ready");
        begins();
        writeln!(client.stdin.as_ref().expect("the pipe was requested"), "go")
            .expect("the client reads");
        let report = hear(&mut said, "grew");
        println!("{name}: {report}");
        assert!(client.wait().is_ok_and(|status| status.success()), "the client exits with 0");
        let grown = report.split(' ').nth(1).and_then(|grown| grown.parse::<u64>().ok());
        let grown = grown.expect("the client reports its growth");
        assert!(grown <= GROWTH_MAX_KIB, "{name}: the client grew by {grown} KiB");
    }

    /// Runs the client, if this is its process.
    pub fn be_client(connect: impl AsyncFnOnce(String) -> Locks) {
        let Ok(url) = std::env::var(URL_VARIABLE) else { return };
        let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
        let attempts = number(ATTEMPTS_VARIABLE).unwrap_or(ATTEMPTS);
        let tasks = number(TASKS_VARIABLE).expect("the variable is set");
        let patience =
            Duration::from_micros(number(PATIENCE_VARIABLE).expect("the variable is set"));
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime can start");
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
        Command::new(std::env::current_exe().expect("this program has a path"))
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

/// Returns the first marked line of the client, which must start with `begins`.
fn hear(said: &mut BufReader<ChildStdout>, begins: &str) -> String {
    let mut line = String::new();
    while said.read_line(&mut line).expect("the output is UTF-8") > 0 {
        if let Some((_, words)) = line.split_once(MARK) {
            assert!(words.starts_with(begins), "{words}");
            return words.trim().to_owned();
        }
        line.clear();
    }
    panic!("the client ended before it printed {begins}");
}

/// Makes `attempts` attempts in `tasks` tasks, and returns the number of granted locks.
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
                    let _ = tokio::time::timeout(patience, guard.release()).await; // The outcome may be unknown.
                }
            }
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended.expect("no caller panics");
    }
    held.load(Ordering::Relaxed)
}

/// Watches the memory of this process, and ends it above `GROWTH_END_KIB`.
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

/// The resident memory of this process; 0 if the system does not report it.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
