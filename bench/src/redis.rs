//! Redis, beside the bare commands of the same client, and beside four other locks on the same server.

mod crowd;
mod floor;
mod forgotten;
mod held;
mod kinds;
mod meter;
mod peers;

use tenure_servers::redis::{Masters, Server};

use crate::contest::stores::Stores;
use crate::contest::{crowd as anyones, free, handover, on_both};
use crate::figures::Table;
pub(crate) use kinds::KINDS;
use kinds::{DISTKIT, DISTRIBUTED_LOCK, FIELD, OURS, PYTHON, QUICK_RSLOCK, REDLOCK, RSLOCK, TOLD};

const MASTERS: usize = 5;

/// The rows of one server, as the cores are and with cores that stay awake.
pub(crate) fn run(table: &mut Table) {
    on_servers(table, "redis", 1, |table, stores| {
        on_both(table, stores, |table, stores| {
            let few = [OURS, QUICK_RSLOCK, RSLOCK, DISTRIBUTED_LOCK, DISTKIT];
            free::run(table, stores, &FIELD);
            anyones::few(table, stores, &few, PYTHON);
        });
    });
}

/// The rows of one server in which somebody waits.
pub(crate) fn run_waiting(table: &mut Table) {
    on_servers(table, "redis", 1, |table, stores| {
        let peers = [RSLOCK, QUICK_RSLOCK, DISTRIBUTED_LOCK, DISTKIT];
        handover::run(table, &stores, &TOLD, &peers, PYTHON);
        crowd::run(table, &stores);
        held::run(table, &stores);
    });
}

/// The rows of five that know nothing of each other.
pub(crate) fn run_redlock(table: &mut Table) {
    on_servers(table, "redlock", MASTERS, |table, stores| {
        let free = [REDLOCK, RSLOCK, DISTRIBUTED_LOCK];
        free::run_beside(table, &stores, "lock + release on five", &free);
        forgotten::run(table, &stores);
        let told = [REDLOCK, RSLOCK, QUICK_RSLOCK, DISTRIBUTED_LOCK];
        let case = "hand-over between two processes on five";
        let grow = handover::run_beside(table, &stores, case, &told);
        let case = stores.case("the token grows from hand-over to hand-over");
        table.row(case, if grow { "yes, each time" } else { "**no**" }, "no peer has one", "yes");
    });
}

fn on_servers(table: &mut Table, suite: &str, count: usize, rows: fn(&mut Table, Stores)) {
    match Masters::start(count) {
        Err(why) => table.row(suite, format!("absent: {why}"), "–", "–"),
        Ok(masters) => {
            let servers = masters.servers();
            let urls = servers.iter().map(Server::url).collect();
            let pids = servers.iter().map(|server| server.pid().unwrap()).collect();
            rows(table, Stores { urls, pids, suite: suite.to_owned() });
        }
    }
}
