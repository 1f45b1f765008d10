//! MariaDB: Tenure beside two bare updates of the same client, and beside `GET_LOCK` and a table of
//! leases.

mod crowd;
mod floor;
mod kinds;
mod peers;
mod wire;

use std::time::Duration;

use tenure_servers::Result;
use tenure_servers::mariadb::{Server, Setup};

use crate::contest::stores::Stores;
use crate::contest::{free, handover, on_both};
use crate::figures::Table;
pub(crate) use kinds::KINDS;
use kinds::{FIELD, LEASE, NAMED, NOTIFIED, OURS, TRY};

const SUITE: &str = "mariadb";
/// Pause between two polls of the peers that poll, in milliseconds.
const POLL_MS: u64 = 100;
const POLL: Duration = Duration::from_millis(POLL_MS);

/// Adds the rows of one server, which flushes each commit to the disk, and of one that flushes
/// nothing.
pub(crate) fn run(table: &mut Table) {
    if let Err(error) = on_servers(table) {
        table.row(SUITE, format!("absent: {error}"), "–", "–");
    }
}

fn on_servers(table: &mut Table) -> Result<()> {
    let peers = [NAMED, TRY, LEASE];
    // `Setup::durable` would put the folder into memory, where a flush takes no time.
    let server = Setup::new().setting("innodb_flush_log_at_trx_commit=1").start()?;
    on_both(table, stores(&server, SUITE), |table, stores| {
        free::run(table, stores, &FIELD);
        crate::contest::crowd::few(table, stores, &[OURS, NAMED, TRY, LEASE], &[]);
    });
    handover::run(table, &stores(&server, SUITE), &NOTIFIED, &peers, &[]);
    crowd::run(table, &stores(&server, SUITE), &server)?;
    drop(server);

    let server = Server::start()?;
    let stores = stores(&server, "mariadb, no flush");
    free::run(table, &stores, &FIELD);
    handover::run(table, &stores, &NOTIFIED, &peers, &[]);
    Ok(())
}

fn stores(server: &Server, suite: &str) -> Stores {
    let pids = server.pid().into_iter().collect();
    Stores { urls: vec![server.url()], pids, suite: suite.to_owned() }
}
