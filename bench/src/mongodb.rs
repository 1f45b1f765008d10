//! MongoDB: Tenure beside the bare commands of the same driver, and beside two locks that poll.

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
use kinds::{DISTRIBUTED_LOCK, FIELD, NOTIFIED, OURS, POLLING};

const SUITE: &str = "mongodb";
/// Pause between two polls: that of `distributed-lock`.
const POLL_MS: u64 = 10;

/// Adds the rows of a replica set of one server.
pub(crate) fn run(table: &mut Table) {
    let server = match Server::start() {
        Err(error) => return table.row(SUITE, format!("absent: {error}"), "–", "–"),
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
    handover::run(table, &stores(), &NOTIFIED, &[DISTRIBUTED_LOCK, POLLING], &[]);
    line::run(table, &stores(), &server);
}
