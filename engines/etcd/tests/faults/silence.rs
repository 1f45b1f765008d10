//! Nobody answers: callers have their answers in time, memory is flat, few connections are made, and nothing stale is done
//! afterwards.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_conformance::fault::Proxy;
use tenure_core::{Kind, Locks};
use tenure_kit::pace::{AT_ONCE, EACH};
use tenure_servers::Store as _;
use tenure_servers::etcd::Cluster;
use tokio::task::JoinSet;

use super::network::proxy_to;
use super::stage::{at_last, connect, play, soon, until_line};

/// How many attempts an outage sees; more are asked for by this variable.
const ATTEMPTS: u64 = 10_000;
const ATTEMPTS_VARIABLE: &str = "TENURE_OUTAGE_ATTEMPTS";
/// What a client may grow by in an outage.
const GROWTH_MAX_KIB: u64 = 50 * 1024;
/// One that has grown by so much is stopped: the figure is bad enough.
const GROWTH_END_KIB: u64 = 1024 * 1024;
const URL_VARIABLE: &str = "TENURE_OUTAGE_URL";
const MARK: &str = "outage> ";
const TASKS: u64 = 64;
/// How long each of its callers waits.
const BRIEF: Duration = Duration::from_micros(500);

#[test]
fn forty_callers_of_a_member_that_stands_still_have_their_answers_in_the_promised_time() {
    play(1, async |cluster| {
        let locks = connect(&cluster).await;
        let promised = locks.guarantees().answers_within;
        assert_eq!(promised, Duration::from_secs(8), "four times the timeout, which is 2 s");
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        cluster.members()[0].freeze().unwrap();
        let mut callers = JoinSet::new();
        for caller in 0..40 {
            let locks = locks.clone();
            callers.spawn(async move {
                let (began, key) = (Instant::now(), format!("{caller}"));
                let error = match caller % 4 {
                    0 => locks.mutex(key).lock().await.map(drop).unwrap_err(),
                    1 => locks.mutex(key).try_lock().await.map(drop).unwrap_err(),
                    2 => locks.line(key).await.map(drop).unwrap_err(),
                    _ => locks.sequence(key).next().await.map(drop).unwrap_err(),
                };
                assert_eq!(error.kind(), Kind::Unavailable, "{error}");
                began.elapsed()
            });
        }
        let mut longest = Duration::ZERO;
        while let Some(took) = callers.join_next().await {
            longest = longest.max(took.unwrap());
        }
        println!("the last of 40 had its answer after {longest:?}");
        assert!(longest <= promised, "{longest:?} is more than {promised:?}");
        cluster.members()[0].thaw().unwrap();
        for caller in 0..40 {
            until_line(&locks, &format!("{caller}"), 0).await;
        }
    });
}

#[test]
fn a_thousand_guards_that_are_dropped_while_nobody_answers_are_swept_without_a_storm() {
    const GUARDS: u64 = 1000;
    play(1, async |cluster| {
        let (locks, member) = (connect(&cluster).await, &cluster.members()[0]);
        let mut guards = Vec::new();
        for at in 0..GUARDS {
            guards.push(locks.mutex(format!("k{at}")).lock().await.unwrap());
        }
        let before = member.requests("Txn");
        member.freeze().unwrap();
        drop(guards);
        tokio::time::sleep(Duration::from_secs(3)).await;
        member.thaw().unwrap();
        soon("all are given back", locks.settled()).await;
        let asked = at_last("it answers", async || Ok(member.requests("Txn"))).await - before;
        println!("{GUARDS} guards took {asked} transactions");
        assert!(asked <= GUARDS * 3, "{asked} transactions for {GUARDS} guards");
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}

#[test]
fn a_member_that_turns_clients_out_sees_few_connections() {
    play(1, async |cluster| {
        let proxy = proxy_to(&cluster);
        let locks = tenure_etcd::connect(url_of(&proxy)).await.unwrap();
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        cluster.members()[0].kill().unwrap();
        let (before, began) = (proxy.counts().connections, Instant::now());
        let mut tasks = JoinSet::new();
        for task in 0..16 {
            let locks = locks.clone();
            tasks.spawn(async move {
                while began.elapsed() < Duration::from_secs(5) {
                    let mutex = locks.mutex(format!("key {task}"));
                    let within = Duration::from_millis(20);
                    if let Ok(Ok(_)) = tokio::time::timeout(within, mutex.lock()).await {
                        panic!("nobody is there");
                    }
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        let (seen, within) = (proxy.counts().connections - before, began.elapsed());
        println!("{seen} connections in {within:?}");
        // The kit's pace: of one member, each attempt is one connection.
        let most = u128::from(AT_ONCE) + within.as_millis() / EACH.as_millis() + 1;
        assert!(u128::from(seen) <= most, "{seen} in {within:?}, and {most} are many");
    });
}

#[test]
fn memory_is_flat_while_the_member_stands_still() {
    play(1, async |cluster| {
        outage("frozen", &cluster.url(), || cluster.members()[0].freeze().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nobody_listens() {
    play(1, async |cluster| {
        outage("refusing", &cluster.url(), || cluster.members()[0].kill().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nothing_passes() {
    play(1, async |cluster: Cluster| {
        let proxy = proxy_to(&cluster);
        outage("black-holed", &url_of(&proxy), || proxy.black_hole());
    });
}

fn url_of(proxy: &Proxy) -> String {
    format!("etcd://127.0.0.1:{}", proxy.port())
}

/// A client in a process of its own, whose memory is its own.
fn outage(name: &str, url: &str, begins: impl FnOnce()) {
    let mut client = start_client(url);
    let mut said = BufReader::new(client.stdout.take().expect("it was asked for"));
    hear(&mut said, "ready");
    begins();
    writeln!(client.stdin.as_ref().expect("it was asked for"), "go").unwrap();
    let report = hear(&mut said, "grew");
    println!("{name}: {report}");
    assert!(client.wait().unwrap().success(), "the client ends well");
    let grown: u64 = report.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(grown <= GROWTH_MAX_KIB, "{name}: it grew by {grown} KiB");
}

fn start_client(url: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "silence::client_process", "--nocapture", "--test-threads=1"])
        .env(URL_VARIABLE, url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program can be started again")
}

/// The first line that the client marks, and that begins so.
fn hear(said: &mut BufReader<ChildStdout>, begins: &str) -> String {
    for line in said.lines() {
        if let Some((_, words)) = line.expect("it speaks UTF-8").split_once(MARK) {
            assert!(words.starts_with(begins), "{words}");
            return words.trim().to_owned();
        }
    }
    panic!("the client ended before it said {begins}");
}

/// Not a test: where the client's process begins.
#[test]
fn client_process() {
    let Ok(url) = std::env::var(URL_VARIABLE) else { return };
    let attempts = std::env::var(ATTEMPTS_VARIABLE).map_or(ATTEMPTS, |text| text.parse().unwrap());
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap().block_on(async {
        let locks = tenure_etcd::connect(url).await.unwrap();
        ask_for_locks(&locks, 1000, Duration::from_secs(9)).await;
        let before = resident_kib();
        println!("{MARK}ready");
        std::io::stdin().lines().next().unwrap().unwrap();
        let (peak, began) = (watch_memory(before), Instant::now());
        let held = ask_for_locks(&locks, attempts, BRIEF).await;
        let (grown, took) = (peak.load(Ordering::Relaxed).saturating_sub(before), began.elapsed());
        println!("{MARK}grew {grown} KiB over {attempts} attempts in {took:.1?}, {held} held");
        std::process::exit(0);
    });
}

/// So many attempts, from so many tasks; says how many were held.
async fn ask_for_locks(locks: &Locks, attempts: u64, patience: Duration) -> u64 {
    let (left, held) = (Arc::new(AtomicU64::new(attempts)), Arc::new(AtomicU64::new(0)));
    let mut callers = JoinSet::new();
    for task in 0..TASKS {
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
        ended.unwrap();
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

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is told");
    line.trim().split(' ').next().unwrap().parse().unwrap()
}
