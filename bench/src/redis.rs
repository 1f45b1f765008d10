//! Redis, beside the bare commands of the same client, and beside four other locks on the same server.

mod awake;
mod contender;
mod crowd;
mod entrant;
mod floor;
mod free;
mod handover;
mod held;
mod kind;
mod meter;
mod ours;
mod peers;
mod python;
mod side;
mod stores;
mod turns;
mod workers;

use tenure_servers::redis::Masters;

use crate::figures::Table;
use awake::Spinners;
use stores::Stores;

const MASTERS: usize = 5;

/// The rows of one server, as the cores are and with cores that stay awake.
pub(crate) fn run(table: &mut Table) {
    on_servers(table, "redis", 1, |table, stores| {
        free::run(table, &stores);
        crowd::few(table, &stores);
        match Spinners::start() {
            Err(why) => table.row("redis, cores awake", format!("absent: {why}"), "–", "–"),
            Ok(_spinning) => {
                let stores = stores.awake();
                free::run(table, &stores);
                crowd::few(table, &stores);
            }
        }
    });
}

/// The rows of one server in which somebody waits.
pub(crate) fn run_waiting(table: &mut Table) {
    on_servers(table, "redis", 1, |table, stores| {
        handover::run(table, &stores);
        crowd::many(table, &stores);
        held::run(table, &stores);
    });
}

/// The rows of five that know nothing of each other.
pub(crate) fn run_redlock(table: &mut Table) {
    on_servers(table, "redlock", MASTERS, |table, stores| {
        free::run_redlock(table, &stores);
        handover::run_redlock(table, &stores);
    });
}

fn on_servers(table: &mut Table, suite: &str, count: usize, rows: fn(&mut Table, Stores)) {
    match Masters::start(count) {
        Err(why) => table.row(suite, format!("absent: {why}"), "–", "–"),
        Ok(masters) => rows(table, Stores::of(&masters, suite)),
    }
}

/// What another process of this bench does, if this is one.
pub(crate) fn other_process(arguments: &[String]) -> bool {
    side::be_one(arguments) || awake::be_one(arguments)
}
