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

pub(crate) fn run(table: &mut Table) {
    let masters = match Masters::start(MASTERS) {
        Ok(masters) => masters,
        Err(why) => return table.row("redis", format!("absent: {why}"), "–", "–"),
    };
    let urls: Vec<String> = masters.servers().iter().map(Server::url).collect();
    let one = &urls[..1];
    free::run(table, one);
    crowd::few(table, one);
    handover::run(table, one);
    crowd::many(table, one);
    held::run(table, one);
    free::run_redlock(table, &urls);
    handover::run_redlock(table, &urls);
}

/// What the other process of this bench does, if this is one.
pub(crate) fn other_process(arguments: &[String]) -> bool {
    side::be_one(arguments)
}

/// The runtime on which all are measured, in tasks of its own.
fn workers() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
