//! A crowd on one key: whom a lock favours, and what a hand-over costs the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::contender::{Contender, Held};
use super::kind::{Kind, PEERS};
use super::meter::Meter;
use super::python;
use super::stores::Stores;
use super::turns::{self, Keys, Turns};
use super::workers::workers;
use crate::figures::{Table, grouped, us};

const FEW: usize = 8;
const FEW_ROUNDS: u32 = 3;
const FEW_ROUND: Duration = Duration::from_secs(1);

/// How long those who cannot be counted are given to stand and wait.
const GATHERING: Duration = Duration::from_millis(1_500);
const HOLD: Duration = Duration::from_millis(10);
/// How long ours come back: longer than it takes until each waiter has sent a heartbeat.
const OURS_STAY: Duration = Duration::from_secs(15);
const PEERS_STAY: Duration = Duration::from_secs(4);

/// Whom a lock favours.
pub(crate) fn few(table: &mut Table, stores: &Stores) {
    let (case, urls) = (stores.case(&format!("{FEW} tasks, one key")), &stores.urls);
    let runtime = workers();
    let kinds = [Kind::Tenure, Kind::QuickRslock].into_iter().chain(PEERS);
    let mut entrants: Vec<(Kind, Arc<dyn Contender>, Turns)> = kinds
        .map(|kind| (kind, runtime.block_on(kind.connect(urls, 0)), Turns::default()))
        .collect();
    for _ in 0..FEW_ROUNDS {
        for (_, contender, turns) in &mut entrants {
            if turns.failure.is_none() {
                let round = turns::take(contender.clone(), FEW, Keys::One, FEW_ROUND);
                let round = runtime.block_on(runtime.spawn(round)).unwrap();
                *turns = std::mem::take(turns).and(round);
            }
        }
    }
    for (kind, _, turns) in entrants {
        table.row(named(&case, kind), turns.describe(), "–", "–");
    }
    match python::side(&urls[0], "few") {
        Ok(mut side) => {
            let turns = turns::elsewhere(&mut side, FEW, Keys::One, FEW_ROUND * FEW_ROUNDS);
            table.row(format!("{case}, {}", python::NAME), turns.describe(), "–", "–");
        }
        Err(why) => python::say_absent(table, &case, &why),
    }
}

/// What a hand-over costs the server.
pub(crate) fn many(table: &mut Table, stores: &Stores) {
    let urls = &stores.urls;
    let runtime = workers();
    let crowd = |kind, waiters| Crowd { kind, url: urls[0].clone(), waiters };
    let ask = |kind| if kind == Kind::Tenure { "≤ 4 requests" } else { "–" };
    let waiters = [Kind::Tenure, Kind::Rslock, Kind::Distkit];
    for kind in waiters {
        let case = "redis: 1,000 keep coming back, each to hold for 10 ms";
        let requests = runtime.block_on(runtime.spawn(crowd(kind, 1_000).comes_back())).unwrap();
        let requests = requests
            .map_or_else(|failure| failure, |count| format!("{count:.2} requests per hand-over"));
        table.row(named(case, kind), requests, "joins and heartbeats are counted", ask(kind));
    }
    let crowds = waiters.map(|kind| (kind, 1_000)).into_iter().chain([(Kind::Tenure, 10_000)]);
    for (kind, waiters) in crowds {
        let case = format!("redis: {} wait, and leave as soon as they hold", grouped(waiters));
        let cost = runtime.block_on(runtime.spawn(crowd(kind, waiters).leaves())).unwrap();
        let (measured, beside) = match cost {
            Ok(Cost { time, cpu, requests }) => (
                format!("{} and {requests:.2} requests per hand-over", us(time)),
                format!("{} of the server's processor", us(cpu)),
            ),
            Err(failure) => (failure, "–".into()),
        };
        table.row(named(&case, kind), measured, beside, ask(kind));
    }
}

fn named(case: &str, kind: Kind) -> String {
    if kind == Kind::Tenure { case.to_owned() } else { format!("{case}, {kind}") }
}

/// So many tasks that want the same key.
struct Crowd {
    kind: Kind,
    url: String,
    waiters: u64,
}

/// What one hand-over costs.
struct Cost {
    time: Duration,
    /// The processor time of the server.
    cpu: Duration,
    requests: f64,
}

type Tasks = Vec<JoinHandle<Result<(), String>>>;

impl Crowd {
    /// All wait until the first one lets go, and each leaves once it has held.
    async fn leaves(self) -> Result<Cost, String> {
        let mut meter = Meter::connect(&self.url).await;
        // Once to count, and once to time: counting takes time.
        let (first, tasks) = self.gather("counted").await?;
        let counter = meter.count().await;
        first.release.await;
        join(tasks).await?;
        let requests = ratio(counter.stop().await, self.waiters);

        let (first, tasks) = self.gather("timed").await?;
        let (used, start) = (meter.cpu().await, Instant::now());
        first.release.await;
        join(tasks).await?;
        let (time, cpu) = (start.elapsed(), meter.cpu().await.saturating_sub(used));
        let each = u32::try_from(self.waiters).unwrap();
        Ok(Cost { time: time / each, cpu: cpu / each, requests })
    }

    /// The first one, who holds, and all others, who wait.
    async fn gather(&self, key: &'static str) -> Result<(Held, Tasks), String> {
        let contender = self.connect().await;
        let first = contender.lock(key).await?;
        let tasks: Tasks = (0..self.waiters)
            .map(|_| {
                let contender = contender.clone();
                tokio::spawn(async move {
                    contender.lock(key).await?.release.await;
                    Ok(())
                })
            })
            .collect();
        let failed = || tasks.iter().any(JoinHandle::is_finished);
        while contender.line(key).await.is_some_and(|line| line <= self.waiters) && !failed() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        tokio::time::sleep(GATHERING).await;
        Ok((first, tasks))
    }

    /// Whoever has held waits again. How many requests there are for each hand-over, once all are there.
    async fn comes_back(self) -> Result<f64, String> {
        let stay = if self.kind == Kind::Tenure { OURS_STAY } else { PEERS_STAY };
        let contender = self.connect().await;
        let meter = Meter::connect(&self.url).await;
        let held = Arc::new(AtomicU64::default());
        let begin = Instant::now() + GATHERING;
        let end = begin + stay;
        let tasks = (0..self.waiters)
            .map(|_| tokio::spawn(come_back(contender.clone(), held.clone(), end)))
            .collect();
        tokio::time::sleep_until(begin.into()).await;
        let (counter, before) = (meter.count().await, held.load(Ordering::Relaxed));
        tokio::time::sleep_until(end.into()).await;
        let handovers = held.load(Ordering::Relaxed) - before;
        let requests = counter.stop().await;
        join(tasks).await?;
        Ok(ratio(requests, handovers))
    }

    async fn connect(&self) -> Arc<dyn Contender> {
        self.kind.connect(std::slice::from_ref(&self.url), 0).await
    }
}

async fn come_back(
    contender: Arc<dyn Contender>,
    held: Arc<AtomicU64>,
    end: Instant,
) -> Result<(), String> {
    while Instant::now() < end {
        let lock = contender.lock("comes back").await?;
        if Instant::now() < end {
            held.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(HOLD).await;
        }
        lock.release.await;
    }
    Ok(())
}

async fn join(tasks: Tasks) -> Result<(), String> {
    for task in tasks {
        task.await.unwrap()?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "counts of some thousands")]
fn ratio(requests: u64, handovers: u64) -> f64 {
    requests as f64 / handovers as f64
}
