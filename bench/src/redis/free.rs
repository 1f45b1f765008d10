//! Lock and release where nobody else wants to: one after the other, and 64 at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::contender::{Contender, Kind, PEERS};
use super::meter::Meter;
use super::turns::{self, Keys};
use super::{python, workers};
use crate::figures::{Table, grouped, median, median_ratio, per_second, us};

const ROUNDS: usize = 41;
const ROUND: Duration = Duration::from_millis(20);
const RELEASED: u64 = 1_000;
const PARALLEL: usize = 64;
const PARALLEL_ROUNDS: usize = 15;
const PARALLEL_ROUND: Duration = Duration::from_millis(50);

/// One who takes part: what it took in each round.
struct Entrant<'a> {
    name: String,
    round: Box<dyn FnMut() -> Duration + 'a>,
    took: Vec<Duration>,
}

impl<'a> Entrant<'a> {
    fn new(name: impl Into<String>, round: impl FnMut() -> Duration + 'a) -> Self {
        Self { name: name.into(), round: Box::new(round), took: Vec::new() }
    }

    fn sequential(runtime: &'a Runtime, kind: Kind, urls: &[String]) -> Self {
        let contender = runtime.block_on(kind.connect(urls, 0));
        Self::new(kind.to_string(), move || {
            runtime.block_on(runtime.spawn(sequential(contender.clone()))).unwrap()
        })
    }

    fn parallel(runtime: &'a Runtime, kind: Kind, urls: &[String]) -> Self {
        let contender = runtime.block_on(kind.connect(urls, 0));
        Self::new(kind.to_string(), move || {
            let turns = turns::take(contender.clone(), PARALLEL, Keys::Own, PARALLEL_ROUND);
            runtime.block_on(runtime.spawn(turns)).unwrap().each()
        })
    }

    fn median(&self) -> Duration {
        median(&mut self.took.clone())
    }

    /// How many times as fast as the other one it is, round by round.
    fn speed_beside(&self, other: &Self) -> f64 {
        median_ratio(&other.took, &self.took)
    }

    fn rate(&self) -> String {
        per_second(self.median())
    }
}

/// Lets all have their rounds in turn, so that whatever else goes on meets them all alike. Who follows whom
/// is another matter each time: whoever comes before leaves the cores awake, or fast asleep.
fn alternate(entrants: &mut [Entrant<'_>], rounds: usize) {
    let mut order: Vec<usize> = (0..entrants.len()).collect();
    let mut chance = 0x7E17_0AE5_u64;
    for _ in 0..rounds {
        for last in (1..order.len()).rev() {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            order.swap(last, (chance >> 33) as usize % (last + 1));
        }
        for entrant in &order {
            let entrant = &mut entrants[*entrant];
            // The first is only to warm up.
            (entrant.round)();
            entrant.took.push((entrant.round)());
        }
    }
}

async fn sequential(contender: Arc<dyn Contender>) -> Duration {
    let start = Instant::now();
    let mut count = 0;
    while start.elapsed() < ROUND {
        contender.lock("free").await.unwrap().release.await;
        count += 1;
    }
    start.elapsed() / count
}

/// The rows of one server.
pub(crate) fn run(table: &mut Table, urls: &[String]) {
    sequentially(table, urls);
    on_one_thread(table, urls);
    in_parallel(table, urls);
}

fn sequentially(table: &mut Table, urls: &[String]) {
    let case = "redis: lock + release";
    let runtime = workers();
    let mut entrants: Vec<_> = [Kind::Floor, Kind::Tenure]
        .into_iter()
        .chain(PEERS)
        .map(|kind| Entrant::sequential(&runtime, kind, urls))
        .collect();
    match python::side(&urls[0], "free") {
        Ok(mut side) => entrants.push(Entrant::new(python::NAME, move || {
            let took = side.ask(&format!("free {}", ROUND.as_secs_f64()));
            Duration::from_nanos(took.parse().unwrap())
        })),
        Err(why) => python::say_absent(table, case, &why),
    }
    alternate(&mut entrants, ROUNDS);
    let [floor, ours, peers @ ..] = entrants.as_slice() else { unreachable!() };
    table.row(format!("{case}, the floor"), us(floor.median()), "1", "–");
    table.row(case, us(ours.median()), share(ours, floor), "≥ 0.85");
    for peer in peers {
        let beside = format!("ours is {:.2} × as fast", ours.speed_beside(peer));
        table.row(format!("{case}, {}", peer.name), us(peer.median()), beside, "> 1 ×");
    }
}

/// The same on a runtime of one thread, where a task wakes another for less.
fn on_one_thread(table: &mut Table, urls: &[String]) {
    let case = "redis: lock + release, a runtime of one thread";
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let mut entrants =
        [Kind::Floor, Kind::Tenure].map(|kind| Entrant::sequential(&runtime, kind, urls));
    alternate(&mut entrants, ROUNDS);
    let [floor, ours] = &entrants;
    table.row(format!("{case}, the floor"), us(floor.median()), "1", "–");
    table.row(case, us(ours.median()), share(ours, floor), "–");
}

fn in_parallel(table: &mut Table, urls: &[String]) {
    let case = format!("redis: {PARALLEL} tasks, a key each");
    let runtime = workers();
    let mut entrants: Vec<_> = [Kind::Floor, Kind::Tenure]
        .into_iter()
        .chain(PEERS)
        .map(|kind| Entrant::parallel(&runtime, kind, urls))
        .collect();
    alternate(&mut entrants, PARALLEL_ROUNDS);
    let [floor, ours, peers @ ..] = entrants.as_slice() else { unreachable!() };
    table.row(format!("{case}, the floor"), floor.rate(), "1", "–");
    table.row(case.as_str(), ours.rate(), share(ours, floor), "≥ 0.6");
    for peer in peers {
        let beside = format!("ours does {:.2} ×", ours.speed_beside(peer));
        table.row(format!("{case}, {}", peer.name), peer.rate(), beside, "–");
    }
}

/// The rows of RedLock.
pub(crate) fn run_redlock(table: &mut Table, urls: &[String]) {
    let case = "redlock: lock + release on five";
    let runtime = workers();
    let mut entrants = [Kind::Tenure, Kind::Rslock, Kind::DistributedLock]
        .map(|kind| Entrant::sequential(&runtime, kind, urls));
    alternate(&mut entrants, ROUNDS);
    let [ours, peers @ ..] = &entrants;
    table.row(case, us(ours.median()), "1", "–");
    for peer in peers {
        let beside = format!("ours is {:.2} × as fast", ours.speed_beside(peer));
        table.row(format!("{case}, {}", peer.name), us(peer.median()), beside, "> 1 ×");
    }
    forgotten(table, urls);
}

/// What a release forgets keeps others out until its ttl ends. (Ours keeps the last number there,
/// which keeps nobody out.)
fn forgotten(table: &mut Table, urls: &[String]) {
    let runtime = workers();
    for kind in [Kind::Rslock, Kind::DistributedLock] {
        let urls = urls.to_vec();
        let left = async move {
            let name = format!("released-{}", kind as usize);
            let contender = kind.connect(&urls, 0).await;
            for key in 0..RELEASED {
                contender.lock(&format!("{name}-{key}")).await.unwrap().release.await;
            }
            let mut left = 0;
            for url in &urls {
                left += Meter::connect(url).await.keys(&format!("*{name}-*")).await;
            }
            left
        };
        let left = runtime.block_on(runtime.spawn(left)).unwrap();
        let case = format!("redlock: keys that {} released locks left behind", grouped(RELEASED));
        table.row(format!("{case}, {kind}"), grouped(left as u64), "–", "0");
    }
}

fn share(ours: &Entrant<'_>, floor: &Entrant<'_>) -> String {
    format!("{:.2} of the floor", ours.speed_beside(floor))
}
