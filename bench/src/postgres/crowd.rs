//! Many waiters of one key: the cost of a hand-over for the server.

use std::time::Duration;

use tenure_servers::Result;
use tenure_servers::postgres::Server;

use super::kinds::{CLIENTS, OURS};
use super::size::size;
use crate::contest::contender::Held;
use crate::contest::crowd::{Crowd, Tasks};
use crate::contest::kind::Kind;
use crate::contest::stores::Stores;
use crate::contest::workers::workers;
use crate::figures::{Table, grouped, us};
use crate::processor;

/// The statements of clients, without this one. Those inside a function are not counted.
const COUNT: &str = "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
    WHERE query NOT LIKE '%pg_stat_statements%'";

/// All wait until the holder releases, and each releases as soon as it holds. `counter` counts the
/// statements, which takes time, so `server` measures the time.
pub(crate) fn run(
    table: &mut Table,
    stores: &Stores,
    server: &Server,
    counter: &Server,
) -> Result<()> {
    counter.sql("CREATE EXTENSION pg_stat_statements")?;
    for (kind, waiters) in
        [(OURS, 10), (OURS, 1_000), (CLIENTS, 10), (CLIENTS, 100), (CLIENTS, 1_000)]
    {
        let name = format!("{} wait, and leave as soon as they hold", grouped(waiters));
        let of = if kind.name == OURS.name { "" } else { ", on eight clients" };
        let case = stores.case(&format!("{name}{of}"));
        let requests = requests(kind, waiters, counter)?;
        match leaves(kind, waiters, stores) {
            Err(failure) => table.row(case, failure, "–", "≤ 5 requests"),
            Ok((time, used)) => table.row(
                case,
                format!("{} and {requests:.2} requests per hand-over", us(time)),
                format!("{} of the server's processor", us(used)),
                "≤ 5 requests",
            ),
        }
    }
    table.row(stores.case("size of the tables after all this"), size(server)?, "–", "–");
    Ok(())
}

/// Waiters of several clients come one by one, so that no two neighbours in line are of one client.
async fn gather(crowd: &Crowd, key: &'static str) -> Result<(Held, Tasks)> {
    if crowd.kind.name == OURS.name {
        crowd.gather(key).await
    } else {
        crowd.gather_one_by_one(key).await
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of some thousands")]
fn requests(kind: Kind, waiters: u64, counter: &Server) -> Result<f64> {
    let runtime = workers();
    let crowd = Crowd { kind, urls: vec![counter.url()], waiters };
    let waiting = runtime.block_on(gather(&crowd, "counted"))?;
    counter.sql("SELECT pg_stat_statements_reset()")?;
    runtime.block_on(Crowd::leave(waiting))?;
    let count = counter.sql(COUNT)?;
    let count: u64 = count.trim().parse().map_err(|_| format!("{count} is no count."))?;
    Ok(count as f64 / waiters as f64)
}

/// The time and the processor time of the server for one hand-over.
fn leaves(kind: Kind, waiters: u64, stores: &Stores) -> Result<(Duration, Duration)> {
    let runtime = workers();
    let crowd = Crowd { kind, urls: stores.urls.clone(), waiters };
    let waiting = runtime.block_on(gather(&crowd, "timed"))?;
    let servers = processor::with_children(&stores.pids);
    let used = processor::of_all(&servers);
    let time = runtime.block_on(Crowd::leave(waiting))?;
    let used = processor::of_all(&servers).saturating_sub(used);
    let each = u32::try_from(waiters).unwrap();
    Ok((time / each, used / each))
}
