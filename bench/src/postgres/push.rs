//! The cost of notifications: the throughput of several clients with them and without.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::kinds::{CLIENTS, DEAF_CLIENTS};
use crate::contest::contender::{Contender, Held, Later};
use crate::contest::entrant::{Entrant, alternate};
use crate::contest::ours::Tenure;
use crate::contest::stores::Stores;
use crate::contest::turns::{self, Keys};
use crate::contest::workers::workers;
use crate::figures::Table;

const CLIENTS_COUNT: usize = 8;
const ROUNDS: usize = 9;
/// A waiter that polls pauses for up to 1 s.
const ROUND: Duration = Duration::from_secs(1);

/// Several clients, each with connections of its own. Each lock goes to the next of them.
pub(crate) struct Clients {
    all: Vec<Tenure>,
    turn: AtomicUsize,
}

impl Clients {
    pub(crate) async fn connect(url: &str) -> Self {
        let mut all = Vec::new();
        for _ in 0..CLIENTS_COUNT {
            all.push(Tenure(tenure_postgres::connect(url).await.unwrap()));
        }
        Self { all, turn: AtomicUsize::default() }
    }
}

impl Contender for Clients {
    fn lock<'a>(&'a self, key: &'a str) -> Later<'a, Result<Held, String>> {
        self.all[self.turn.fetch_add(1, Ordering::Relaxed) % CLIENTS_COUNT].lock(key)
    }

    fn line<'a>(&'a self, key: &'a str) -> Later<'a, Option<u64>> {
        self.all[0].line(key)
    }
}

/// Adds the rows of one server.
pub(crate) fn run(table: &mut Table, stores: &Stores) {
    for (keys, name) in [(Keys::Own, "8 tasks with a key each"), (Keys::One, "8 tasks, one key")] {
        let case = stores.case(&format!("{CLIENTS_COUNT} clients, {name}"));
        let runtime = workers();
        let mut entrants = [CLIENTS, DEAF_CLIENTS].map(|kind| {
            let clients: Arc<dyn Contender> = runtime.block_on(kind.connect(&stores.urls, 0));
            let runtime = &runtime;
            Entrant::of(kind, move || {
                let turns = turns::take(clients.clone(), CLIENTS_COUNT, keys, ROUND);
                runtime.block_on(runtime.spawn(turns)).unwrap().round()
            })
        });
        alternate(&mut entrants, &stores.pids, ROUNDS);
        let [ours, deaf] = &entrants;
        let beside = format!("{:.2} of that {}", ours.speed_beside(deaf), deaf.name());
        table.row(case.as_str(), ours.rate(), beside, "≥ 0.9");
        table.row(format!("{case}, {}", deaf.name()), deaf.rate(), "1", "–");
    }
}
