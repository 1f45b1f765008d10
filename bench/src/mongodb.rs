//! MongoDB, beside the bare commands of the same driver, and beside two locks that look again and again.

mod documents;
mod floor;
mod kinds;
mod line;
mod peers;

use tenure_servers::mongodb::Server;

use crate::contest::stores::Stores;
use crate::contest::{crowd, free, handover, on_both};
use crate::figures::Table;
pub(crate) use documents::run as run_documents;
pub(crate) use kinds::KINDS;
use kinds::{DISTRIBUTED_LOCK, FIELD, OURS, POLLING, TOLD};

const SUITE: &str = "mongodb";
/// How long those who look again and again sleep in between: what `distributed-lock` sleeps.
const POLL_MS: u64 = 10;

/// The rows of one server that is a replica set, as the cores are and with cores that stay awake.
pub(crate) fn run(table: &mut Table) {
    let server = match Server::start() {
        Err(why) => return table.row(SUITE, format!("absent: {why}"), "–", "–"),
        Ok(server) => server,
    };
    let stores = || Stores {
        urls: vec![server.url()],
        pids: vec![server.pid().unwrap()],
        suite: SUITE.to_owned(),
    };
    on_both(table, stores(), |table, stores| {
        free::run(table, stores, &FIELD);
        crowd::few(table, stores, &[OURS, DISTRIBUTED_LOCK, POLLING], &[]);
    });
    handover::run(table, &stores(), &TOLD, &[DISTRIBUTED_LOCK, POLLING], &[]);
    line::run(table, &stores(), &server);
}
