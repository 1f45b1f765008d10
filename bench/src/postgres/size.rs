//! The size of the tables while many keys are locked and released.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_servers::Result;
use tenure_servers::postgres::Server;

use super::kinds::OURS;
use crate::contest::contender::Contender;
use crate::contest::stores::Stores;
use crate::contest::workers::workers;
use crate::figures::{Table, grouped, readable};

const LOCKS: u32 = 100_000;
const KEYS: u32 = 1_000;
const TASKS: u32 = 8;
/// Pause between two looks at the size.
const LOOK: Duration = Duration::from_secs(1);

const TOTAL: &str = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
    WHERE relnamespace = 'tenure'::regnamespace AND relkind = 'r'";

/// Adds the row of one server.
pub(crate) fn run(table: &mut Table, stores: &Stores, server: &Server) -> Result<()> {
    let name = format!("size of the tables, {} locks", grouped(LOCKS.into()));
    let case = stores.case(&format!("{name} of {} keys", grouped(KEYS.into())));
    let runtime = workers();
    let contender = runtime.block_on(OURS.connect(&stores.urls, 0));
    let start = Instant::now();
    let tasks: Vec<_> =
        (0..TASKS).map(|task| runtime.spawn(lock_often(contender.clone(), task))).collect();
    let mut most = 0;
    while tasks.iter().any(|task| !task.is_finished()) {
        std::thread::sleep(LOOK);
        most = most.max(bytes(server)?);
    }
    let time = readable(start.elapsed());
    for task in tasks {
        runtime.block_on(task).unwrap()?;
    }
    let measured = format!("{} kB at most, {} at the end", grouped(most / 1_000), size(server)?);
    table.row(case, measured, format!("in {time}"), "< 10 MB");
    Ok(())
}

async fn lock_often(contender: Arc<dyn Contender>, task: u32) -> Result<()> {
    for lock in (task..LOCKS).step_by(TASKS as usize) {
        let key = format!("key-{}", lock % KEYS);
        contender.lock(&key).await?.release.await;
    }
    Ok(())
}

/// The size of all tables of the engine, with their indexes.
pub(crate) fn size(server: &Server) -> Result<String> {
    Ok(format!("{} kB", grouped(bytes(server)? / 1_000)))
}

fn bytes(server: &Server) -> Result<u64> {
    let total = server.sql(TOTAL)?;
    total.trim().parse().map_err(|_| format!("{total} is no size."))
}
