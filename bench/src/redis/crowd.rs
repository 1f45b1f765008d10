//! Many waiters of one key: the cost of a hand-over for the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::kinds::{DISTKIT, OURS, RSLOCK};
use super::meter::Meter;
use crate::contest::contender::Contender;
use crate::contest::crowd::{Crowd, GATHERING, join};
use crate::contest::kind::Kind;
use crate::contest::stores::Stores;
use crate::contest::workers::workers;
use crate::figures::{Table, grouped, us};

const HOLD: Duration = Duration::from_millis(10);
/// Duration for Tenure: longer than the period of a heartbeat.
const OURS_STAY: Duration = Duration::from_secs(15);
const PEERS_STAY: Duration = Duration::from_secs(4);

pub(crate) fn run(table: &mut Table, stores: &Stores) {
    let runtime = workers();
    let crowd = |kind, waiters| Crowd { kind, urls: stores.urls.clone(), waiters };
    let ask = |kind| if is_ours(kind) { "≤ 4 requests" } else { "–" };
    let waiters = [OURS, RSLOCK, DISTKIT];
    for kind in waiters {
        let case = stores.case("1,000 keep coming back, each to hold for 10 ms");
        let requests = runtime.block_on(runtime.spawn(comes_back(crowd(kind, 1_000)))).unwrap();
        let requests = requests
            .map_or_else(|failure| failure, |count| format!("{count:.2} requests per hand-over"));
        table.row(named(&case, kind), requests, "joins and heartbeats are counted", ask(kind));
    }
    let crowds = waiters.map(|kind| (kind, 1_000)).into_iter().chain([(OURS, 10_000)]);
    for (kind, waiters) in crowds {
        let case = format!("{} wait, and leave as soon as they hold", grouped(waiters));
        let case = stores.case(&case);
        let cost = runtime.block_on(runtime.spawn(leaves(crowd(kind, waiters)))).unwrap();
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

fn is_ours(kind: Kind) -> bool {
    kind.name == OURS.name
}

fn named(case: &str, kind: Kind) -> String {
    if is_ours(kind) { case.to_owned() } else { format!("{case}, {kind}") }
}

/// The cost of one hand-over.
struct Cost {
    time: Duration,
    /// The processor time of the server.
    cpu: Duration,
    requests: f64,
}

/// All wait until the holder releases, and each releases as soon as it holds.
async fn leaves(crowd: Crowd) -> Result<Cost, String> {
    let mut meter = Meter::connect(&crowd.urls[0]).await;
    // Counted and timed in two runs, because counting takes time.
    let waiting = crowd.gather("counted").await?;
    let counter = meter.count().await;
    Crowd::leave(waiting).await?;
    let requests = ratio(counter.stop().await, crowd.waiters);

    let waiting = crowd.gather("timed").await?;
    let used = meter.cpu().await;
    let time = Crowd::leave(waiting).await?;
    let cpu = meter.cpu().await.saturating_sub(used);
    let each = u32::try_from(crowd.waiters).unwrap();
    Ok(Cost { time: time / each, cpu: cpu / each, requests })
}

/// Each holder waits again after its release. Returns the requests per hand-over, once all wait.
async fn comes_back(crowd: Crowd) -> Result<f64, String> {
    let stay = if is_ours(crowd.kind) { OURS_STAY } else { PEERS_STAY };
    let contender = crowd.kind.connect(&crowd.urls, 0).await;
    let meter = Meter::connect(&crowd.urls[0]).await;
    let held = Arc::new(AtomicU64::default());
    let begin = Instant::now() + GATHERING;
    let end = begin + stay;
    let tasks = (0..crowd.waiters)
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

#[allow(clippy::cast_precision_loss, reason = "counts of some thousands")]
fn ratio(requests: u64, handovers: u64) -> f64 {
    requests as f64 / handovers as f64
}
