//! Lock and release of a free lock: one task after the other, and many tasks in parallel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};

use super::contender::Contender;
use super::entrant::{Entrant, Round, alternate};
use super::field::Field;
use super::kind::Kind;
use super::side::Side;
use super::stores::Stores;
use super::turns::{self, Keys};
use super::workers::workers;
use crate::figures::{Table, us};

const ROUNDS: usize = 41;
const PARALLEL_ROUNDS: usize = 15;
/// Duration of a round without a field.
const ROUND: Duration = Duration::from_millis(20);

fn one_by_one<'a>(
    runtime: &'a Runtime,
    kind: Kind,
    urls: &[String],
    round: Duration,
) -> Entrant<'a> {
    let contender = runtime.block_on(kind.connect(urls, 0));
    Entrant::of(kind, move || {
        runtime.block_on(runtime.spawn(sequential(contender.clone(), round))).unwrap()
    })
}

fn all_at_once<'a>(
    runtime: &'a Runtime,
    kind: Kind,
    urls: &[String],
    field: &Field,
) -> Entrant<'a> {
    let contender = runtime.block_on(kind.connect(urls, 0));
    let (tasks, round) = (field.tasks, field.round * 2);
    Entrant::of(kind, move || {
        let turns = turns::take(contender.clone(), tasks, Keys::Own, round);
        runtime.block_on(runtime.spawn(turns)).unwrap().round()
    })
}

async fn sequential(contender: Arc<dyn Contender>, round: Duration) -> Round {
    let start = Instant::now();
    let mut pairs = 0;
    while start.elapsed() < round {
        contender.lock("free").await.unwrap().release.await;
        pairs += 1;
    }
    Round { time: start.elapsed(), pairs }
}

/// Adds the rows of one server or cluster.
pub(crate) fn run(table: &mut Table, stores: &Stores, field: &Field) {
    sequentially(table, stores, field);
    on_one_thread(table, stores, field);
    in_parallel(table, stores, field);
}

fn sequentially(table: &mut Table, stores: &Stores, field: &Field) {
    let case = stores.case("lock + release");
    let runtime = workers();
    let mut entrants: Vec<_> =
        field.all().map(|kind| one_by_one(&runtime, kind, &stores.urls, field.round)).collect();
    for peer in field.elsewhere {
        match peer.side(&stores.urls[0], "free") {
            Ok(side) => entrants.push(elsewhere(peer.title, side, field.round)),
            Err(error) => peer.row_absent(table, &case, &error),
        }
    }
    alternate(&mut entrants, &stores.pids, ROUNDS);
    rows(table, &case, &entrants, field.wanted);
}

/// The same on a runtime of one thread, where waking a task is cheaper.
fn on_one_thread(table: &mut Table, stores: &Stores, field: &Field) {
    let case = stores.case("lock + release, a runtime of one thread");
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let kinds = [field.floor, field.ours];
    let mut entrants = kinds.map(|kind| one_by_one(&runtime, kind, &stores.urls, field.round));
    alternate(&mut entrants, &stores.pids, ROUNDS);
    rows(table, &case, &entrants, field.wanted);
}

fn in_parallel(table: &mut Table, stores: &Stores, field: &Field) {
    let tasks = field.tasks;
    let case = stores.case(&format!("{tasks} tasks, a key each"));
    let runtime = workers();
    let mut entrants: Vec<_> =
        field.all().map(|kind| all_at_once(&runtime, kind, &stores.urls, field)).collect();
    alternate(&mut entrants, &stores.pids, PARALLEL_ROUNDS);
    let [floor, ours, peers @ ..] = entrants.as_slice() else { unreachable!() };
    table.row(format!("{case}, the floor"), floor.rate(), "1", "–");
    table.row(case.as_str(), ours.rate(), share(ours, floor), field.tasks_wanted);
    for peer in peers {
        let beside = format!("ours does {:.2} ×", ours.speed_beside(peer));
        table.row(format!("{case}, {}", peer.name()), peer.rate(), beside, "–");
    }
    usage(table, &case, &entrants);
}

fn elsewhere<'a>(title: &str, mut side: Side, length: Duration) -> Entrant<'a> {
    let pid = side.pid();
    let round = move || {
        let took = side.ask(&format!("free {}", length.as_secs_f64()));
        let each = Duration::from_nanos(took.parse().unwrap());
        Round { time: length, pairs: (length.as_nanos() / each.as_nanos()).try_into().unwrap() }
    };
    Entrant::new(title, round).in_process(pid)
}

/// Adds the rows of the floor, Tenure and the peers, in this order.
fn rows(table: &mut Table, case: &str, entrants: &[Entrant<'_>], wanted: &str) {
    let [floor, ours, peers @ ..] = entrants else { unreachable!() };
    table.row(format!("{case}, the floor"), us(floor.median()), "1", "–");
    table.row(case, us(ours.median()), share(ours, floor), wanted);
    for peer in peers {
        let beside = format!("ours is {:.2} × as fast", ours.speed_beside(peer));
        table.row(format!("{case}, {}", peer.name()), us(peer.median()), beside, peer.wanted());
    }
    usage(table, case, entrants);
}

/// Adds the rows of the processor time of client and server.
fn usage(table: &mut Table, case: &str, entrants: &[Entrant<'_>]) {
    let case = format!("{case}, processor time");
    let [floor, ours, peers @ ..] = entrants else { unreachable!() };
    table.row(format!("{case}, the floor"), floor.usage_of_a_pair(), "1", "–");
    let beside = |entrant: &Entrant<'_>| format!("{:.2} × the floor", entrant.usage_beside(floor));
    table.row(case.as_str(), ours.usage_of_a_pair(), beside(ours), "≤ 1.4 ×");
    for peer in peers {
        table.row(format!("{case}, {}", peer.name()), peer.usage_of_a_pair(), beside(peer), "–");
    }
}

/// Adds the rows of a case without a floor: Tenure first, then the peers.
pub(crate) fn run_beside(table: &mut Table, stores: &Stores, case: &str, kinds: &[Kind]) {
    let case = stores.case(case);
    let runtime = workers();
    let mut entrants: Vec<_> =
        kinds.iter().map(|kind| one_by_one(&runtime, *kind, &stores.urls, ROUND)).collect();
    alternate(&mut entrants, &stores.pids, ROUNDS);
    let [ours, peers @ ..] = entrants.as_slice() else { unreachable!() };
    table.row(case.as_str(), us(ours.median()), "1", "–");
    for peer in peers {
        let beside = format!("ours is {:.2} × as fast", ours.speed_beside(peer));
        table.row(format!("{case}, {}", peer.name()), us(peer.median()), beside, peer.wanted());
    }
}

fn share(ours: &Entrant<'_>, floor: &Entrant<'_>) -> String {
    format!("{:.2} of the floor", ours.speed_beside(floor))
}
