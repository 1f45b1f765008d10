//! Nobody answers: every call has its answer in the one time that is promised, and what waits is bounded.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tenure_conformance::fault::Proxy;
use tenure_core::{Engine as _, Kind, Leave, Locks, Patience};
use tenure_servers::redis::{Cluster, Server, Setup};
use tokio::task::JoinSet;

use super::stage::{LONG, connect, play, proxy_to, script_calls, soon, store, ticket, until};

/// How many attempts each outage sees; more are asked for by this variable.
const ATTEMPTS: u64 = 10_000;
const ATTEMPTS_VARIABLE: &str = "TENURE_OUTAGE_ATTEMPTS";
/// What a client may grow by in an outage.
const GROWTH_MAX_KIB: u64 = 50 * 1024;
/// One that has grown by so much is stopped: the figure is bad enough.
const GROWTH_END_KIB: u64 = 1024 * 1024;
const URL_VARIABLE: &str = "TENURE_OUTAGE_URL";
const TASKS_VARIABLE: &str = "TENURE_OUTAGE_TASKS";
const PATIENCE_VARIABLE: &str = "TENURE_OUTAGE_PATIENCE_US";
const MARK: &str = "outage> ";
/// The most that may be written to a connection and not be answered, in calls.
const UNDER_WAY_MAX: u64 = 128;

#[test]
fn forty_callers_at_once_have_their_answers_in_the_promised_time() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let promised = locks.guarantees().answers_within;
        assert_eq!(promised, Duration::from_secs(4), "twice the timeout, which is 2 s");
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        for round in 0..2 {
            server.freeze().unwrap();
            let mut callers = JoinSet::new();
            for caller in 0..40 {
                let locks = locks.clone();
                callers.spawn(async move {
                    let began = Instant::now();
                    let key = format!("{round} {caller}");
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
            server.thaw().unwrap();
            until("it answers again", async || locks.line("a").await.is_ok()).await;
        }
    });
}

#[test]
fn what_callers_gave_up_is_not_carried_out_in_bulk_when_the_server_wakes() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        locks.mutex("a").lock().await.unwrap().release().await.unwrap();
        let before = script_calls(&server);
        server.freeze().unwrap();
        let asked = Arc::new(AtomicU64::new(0));
        let mut callers = JoinSet::new();
        for caller in 0..64 {
            let (locks, asked) = (locks.clone(), asked.clone());
            callers.spawn(async move {
                for round in 0..100 {
                    let mutex = locks.mutex(format!("{caller} {round}"));
                    let _late = tokio::time::timeout(Duration::from_millis(5), mutex.lock()).await;
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while let Some(ended) = callers.join_next().await {
            ended.unwrap();
        }
        server.thaw().unwrap();
        until("it answers again", async || locks.line("a").await.is_ok()).await;
        let calls = script_calls(&server) - before;
        println!("{asked:?} were asked in vain, {calls} calls were carried out");
        // What was under way on its two connections, and the sweeping of it.
        assert!(calls <= 4 * UNDER_WAY_MAX, "{calls} calls were carried out");
        soon("all are given back", locks.settled()).await;
    });
}

#[test]
fn a_caller_that_waits_costs_little_memory() {
    play(async || {
        const VERB_BYTES_MAX: usize = 8 * 1024;
        let server = Server::start().unwrap();
        let (store, ticket) = (store(&server.url()).await, ticket("a", LONG));
        for (verb, bytes) in [
            ("join", size_of_val(&store.join(&ticket, Patience::Wait))),
            ("renew", size_of_val(&store.renew(&ticket))),
            ("leave", size_of_val(&store.leave(&ticket, Leave::Now))),
            ("line", size_of_val(&store.line(&ticket.key))),
        ] {
            println!("a caller of {verb} takes {bytes} bytes");
            assert!(bytes <= VERB_BYTES_MAX, "a caller of {verb} takes {bytes} bytes");
        }
    });
}

#[test]
fn memory_is_flat_while_the_server_stands_still() {
    play(async || {
        let server = Server::start().unwrap();
        Outage::of(&server.url(), 64).runs("frozen", || server.freeze().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nobody_listens() {
    play(async || {
        let server = Server::start().unwrap();
        Outage::of(&server.url(), 64).runs("refusing", || server.kill().unwrap());
    });
}

#[test]
fn memory_is_flat_while_nothing_passes() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = proxy_to(&server);
        let url = format!("redis://{}", proxy.address());
        Outage::of(&url, 64).runs("black-holed", || proxy.black_hole());
    });
}

#[test]
fn memory_is_flat_while_one_of_three_does_not_answer() {
    play(async || {
        type Trouble = fn(&Server, &Proxy);
        let troubles: [(&str, Trouble); 3] = [
            ("one of three frozen", |server, _| server.freeze().unwrap()),
            ("one of three refusing", |server, _| server.kill().unwrap()),
            ("one of three black-holed", |_, proxy| proxy.black_hole()),
        ];
        for (name, trouble) in troubles {
            let servers: Vec<Server> = (0..3).map(|_| Setup::new().start().unwrap()).collect();
            let proxy = proxy_to(&servers[2]);
            let third = if name.ends_with("holed") { proxy.port() } else { servers[2].port() };
            let (one, two) = (servers[0].port(), servers[1].port());
            let hosts = [one, two, third].map(|port| format!("127.0.0.1:{port}")).join(",");
            let url = format!("redlock://{hosts}?young=trust");
            Outage { patience: Duration::from_secs(60), ..Outage::of(&url, 8) }
                .runs(name, || trouble(&servers[2], &proxy));
        }
    });
}

#[test]
fn memory_is_flat_while_a_node_of_a_cluster_stands_still() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        let freeze = || cluster.nodes()[0].freeze().unwrap();
        Outage::of(&cluster.url(), 64).runs("a node of a cluster frozen", freeze);
    });
}

/// A client in a process of its own, whose memory is its own.
struct Outage<'a> {
    url: &'a str,
    tasks: u32,
    /// How long each of its callers waits.
    patience: Duration,
}

impl<'a> Outage<'a> {
    fn of(url: &'a str, tasks: u32) -> Self {
        Self { url, tasks, patience: Duration::from_micros(500) }
    }

    fn runs(&self, name: &str, begins: impl FnOnce()) {
        let mut client = self.start();
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

    fn start(&self) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "silence::client_process", "--nocapture", "--test-threads=1"])
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

/// Not a test: where the client's process begins.
#[test]
fn client_process() {
    let Ok(url) = std::env::var(URL_VARIABLE) else { return };
    let number = |name| -> u64 { std::env::var(name).unwrap().parse().unwrap() };
    let attempts = std::env::var(ATTEMPTS_VARIABLE).map_or(ATTEMPTS, |text| text.parse().unwrap());
    let patience = Duration::from_micros(number(PATIENCE_VARIABLE));
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap().block_on(async {
        let locks = connect(url).await;
        ask_for_locks(&locks, number(TASKS_VARIABLE), 1000, Duration::from_secs(9)).await;
        let before = resident_kib();
        println!("{MARK}ready");
        std::io::stdin().lines().next().unwrap().unwrap();
        let (peak, began) = (watch_memory(before), Instant::now());
        let held = ask_for_locks(&locks, number(TASKS_VARIABLE), attempts, patience).await;
        let (grown, took) = (peak.load(Ordering::Relaxed).saturating_sub(before), began.elapsed());
        println!("{MARK}grew {grown} KiB over {attempts} attempts in {took:.1?}, {held} held");
        std::process::exit(0);
    });
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
