//! Many tasks on one key: how fair a lock is, and how fast a long line drains.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::contender::{Contender, Held};
use super::elsewhere::Elsewhere;
use super::kind::Kind;
use super::stores::Stores;
use super::turns::{self, Keys, Turns};
use super::workers::workers;
use crate::figures::Table;

const FEW: usize = 8;
const FEW_ROUNDS: u32 = 3;
const FEW_ROUND: Duration = Duration::from_secs(1);

/// Time for waiters to arrive, for contenders that cannot report their line.
pub(crate) const GATHERING: Duration = Duration::from_millis(1_500);

/// Measures the fairness among `FEW` tasks. Tenure comes first.
pub(crate) fn few(table: &mut Table, stores: &Stores, kinds: &[Kind], elsewhere: &[Elsewhere]) {
    let (case, urls) = (stores.case(&format!("{FEW} tasks, one key")), &stores.urls);
    let runtime = workers();
    let mut entrants: Vec<(Kind, Arc<dyn Contender>, Turns)> = kinds
        .iter()
        .map(|kind| (*kind, runtime.block_on(kind.connect(urls, 0)), Turns::default()))
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
    for (at, (kind, _, turns)) in entrants.into_iter().enumerate() {
        let case = if at == 0 { case.clone() } else { format!("{case}, {kind}") };
        table.row(case, turns.describe(), "–", "–");
    }
    for peer in elsewhere {
        match peer.side(&urls[0], "few") {
            Ok(mut side) => {
                let turns = turns::elsewhere(&mut side, FEW, Keys::One, FEW_ROUND * FEW_ROUNDS);
                table.row(format!("{case}, {}", peer.title), turns.describe(), "–", "–");
            }
            Err(error) => peer.row_absent(table, &case, &error),
        }
    }
}

/// Pause between two looks at a line that grows.
const LOOK: Duration = Duration::from_millis(5);

pub(crate) type Tasks = Vec<JoinHandle<Result<(), String>>>;

/// Tasks that wait for the same key.
pub(crate) struct Crowd {
    pub(crate) kind: Kind,
    pub(crate) urls: Vec<String>,
    pub(crate) waiters: u64,
}

impl Crowd {
    /// Returns the held lock, and the tasks that wait for it.
    pub(crate) async fn gather(&self, key: &'static str) -> Result<(Held, Tasks), String> {
        self.gather_in(key, self.waiters).await
    }

    /// The same, with each task in line before the next one comes. So a client that sends several
    /// joins in one request sends none together.
    pub(crate) async fn gather_one_by_one(
        &self,
        key: &'static str,
    ) -> Result<(Held, Tasks), String> {
        self.gather_in(key, 1).await
    }

    /// The same, with `step` tasks at a time.
    async fn gather_in(&self, key: &'static str, step: u64) -> Result<(Held, Tasks), String> {
        let contender = self.kind.connect(&self.urls, 0).await;
        let first = contender.lock(key).await?;
        let mut tasks = Tasks::new();
        for come in (step..=self.waiters).step_by(usize::try_from(step).unwrap()) {
            tasks.extend((0..step).map(|_| {
                let contender = contender.clone();
                tokio::spawn(async move {
                    contender.lock(key).await?.release.await;
                    Ok(())
                })
            }));
            let failed = || tasks.iter().any(JoinHandle::is_finished);
            while contender.line(key).await.is_some_and(|line| line <= come) && !failed() {
                tokio::time::sleep(LOOK).await;
            }
        }
        tokio::time::sleep(GATHERING).await;
        Ok((first, tasks))
    }

    /// Releases the lock, and returns the time until every waiter has held it once.
    pub(crate) async fn leave((first, tasks): (Held, Tasks)) -> Result<Duration, String> {
        let start = Instant::now();
        first.release.await;
        join(tasks).await?;
        Ok(start.elapsed())
    }
}

pub(crate) async fn join(tasks: Tasks) -> Result<(), String> {
    for task in tasks {
        task.await.unwrap()?;
    }
    Ok(())
}
