//! Redis, beside the bare commands of the same client, and beside four other locks on the same server.

mod contender;
mod crowd;
mod floor;
mod free;
mod handover;
mod held;
mod meter;
mod ours;
mod peers;
mod python;
mod side;
mod turns;

use tenure_servers::redis::{Masters, Server};
use tokio::runtime::{Builder, Runtime};

use crate::figures::Table;

const MASTERS: usize = 5;

/// The rows of one server.
pub(crate) fn run(table: &mut Table) {
    on_servers(table, "redis", 1, |table, urls| {
        free::run(table, urls);
        crowd::few(table, urls);
        handover::run(table, urls);
        crowd::many(table, urls);
        held::run(table, urls);
    });
}

/// The rows of five that know nothing of each other.
pub(crate) fn run_redlock(table: &mut Table) {
    on_servers(table, "redlock", MASTERS, |table, urls| {
        free::run_redlock(table, urls);
        handover::run_redlock(table, urls);
    });
}

fn on_servers(table: &mut Table, suite: &str, count: usize, rows: fn(&mut Table, &[String])) {
    match Masters::start(count) {
        Err(why) => table.row(suite, format!("absent: {why}"), "–", "–"),
        Ok(masters) => {
            let urls: Vec<String> = masters.servers().iter().map(Server::url).collect();
            rows(table, &urls);
        }
    }
}

/// What the other process of this bench does, if this is one.
pub(crate) fn other_process(arguments: &[String]) -> bool {
    side::be_one(arguments)
}

/// The runtime on which all are measured, in tasks of its own.
fn workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
