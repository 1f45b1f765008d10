//! PostgreSQL: Tenure beside two bare updates of the same client, and beside advisory locks and a
//! table of leases.

mod crowd;
mod floor;
mod kinds;
mod multiplexed;
mod peers;
mod push;
mod size;
mod wire;

use std::time::Duration;

use tenure_servers::Result;
use tenure_servers::postgres::{Server, Setup};

use crate::contest::stores::Stores;
use crate::contest::{free, handover, on_both};
use crate::figures::Table;
pub(crate) use kinds::KINDS;
use kinds::{ADVISORY, FIELD, LEASE, MULTIPLEXED, NOTIFIED, OURS, TRY};

const SUITE: &str = "postgres";
/// Pause between two polls of the peers that poll, in milliseconds.
const POLL_MS: u64 = 100;
const POLL: Duration = Duration::from_millis(POLL_MS);

/// Adds the rows of one server, which flushes each commit to the disk, and of one that flushes
/// nothing.
pub(crate) fn run(table: &mut Table) {
    // `Setup::durable` would put the folder into memory, where a flush takes no time.
    let flushes = setup().setting("fsync=on").setting("full_page_writes=on");
    let counts = setup().setting("shared_preload_libraries=pg_stat_statements");
    if let Err(error) = on_servers(table, flushes, setup(), counts) {
        table.row(SUITE, format!("absent: {error}"), "–", "–");
    }
}

fn setup() -> Setup {
    Setup::new().setting("max_connections=200")
}

fn on_servers(table: &mut Table, flushes: Setup, plain: Setup, counts: Setup) -> Result<()> {
    let server = flushes.start()?;
    let peers = [ADVISORY, MULTIPLEXED, TRY, LEASE];
    on_both(table, stores(&server, SUITE), |table, stores| {
        free::run(table, stores, &FIELD);
        crate::contest::crowd::few(table, stores, &[OURS, ADVISORY, MULTIPLEXED, TRY, LEASE], &[]);
    });
    handover::run(table, &stores(&server, SUITE), &NOTIFIED, &peers, &[]);
    push::run(table, &stores(&server, SUITE));
    let counter = counts.start()?;
    crowd::run(table, &stores(&server, SUITE), &server, &counter)?;
    drop((server, counter));

    let server = plain.start()?;
    let stores = stores(&server, "postgres, fsync off");
    free::run(table, &stores, &FIELD);
    handover::run(table, &stores, &NOTIFIED, &peers, &[]);
    push::run(table, &stores);
    size::run(table, &stores, &server)
}

fn stores(server: &Server, suite: &str) -> Stores {
    let pids = server.pid().into_iter().collect();
    Stores { urls: vec![server.url()], pids, suite: suite.to_owned() }
}
