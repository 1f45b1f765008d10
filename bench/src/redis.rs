//! Redis: Tenure beside the bare commands of the same client, and beside four other locks.

mod crowd;
mod floor;
mod forgotten;
mod held;
mod kinds;
mod meter;
mod peers;

use tenure_servers::redis::{Masters, Server};

use crate::contest::stores::Stores;
use crate::contest::{crowd as fairness, free, handover, on_both};
use crate::figures::Table;
pub(crate) use kinds::KINDS;
use kinds::{
    DISTKIT, DISTRIBUTED_LOCK, FIELD, NOTIFIED, OURS, PYTHON, QUICK_RSLOCK, REDLOCK, RSLOCK,
};

const MASTERS: usize = 5;

/// Adds the rows of a free lock on one server.
pub(crate) fn run(table: &mut Table) {
    on_servers(table, "redis", 1, |table, stores| {
        on_both(table, stores, |table, stores| {
            let few = [OURS, QUICK_RSLOCK, RSLOCK, DISTRIBUTED_LOCK, DISTKIT];
            free::run(table, stores, &FIELD);
            fairness::few(table, stores, &few, PYTHON);
        });
    });
}

/// Adds the rows of one server with waiters.
pub(crate) fn run_waiting(table: &mut Table) {
    on_servers(table, "redis", 1, |table, stores| {
        let peers = [RSLOCK, QUICK_RSLOCK, DISTRIBUTED_LOCK, DISTKIT];
        handover::run(table, &stores, &NOTIFIED, &peers, PYTHON);
        crowd::run(table, &stores);
        held::run(table, &stores);
    });
}

/// Adds the rows of five servers without replication.
pub(crate) fn run_redlock(table: &mut Table) {
    on_servers(table, "redlock", MASTERS, |table, stores| {
        let free = [REDLOCK, RSLOCK, DISTRIBUTED_LOCK];
        free::run_beside(table, &stores, "lock + release", &free);
        forgotten::run(table, &stores);
        let contenders = [REDLOCK, RSLOCK, QUICK_RSLOCK, DISTRIBUTED_LOCK];
        let case = "hand-over between two processes";
        let grow = handover::run_beside(table, &stores, case, &contenders);
        let case = stores.case("the token grows from hand-over to hand-over");
        table.row(case, if grow { "yes, each time" } else { "**no**" }, "no peer has one", "yes");
    });
}

fn on_servers(table: &mut Table, suite: &str, count: usize, rows: fn(&mut Table, Stores)) {
    match Masters::start(count) {
        Err(error) => table.row(suite, format!("absent: {error}"), "–", "–"),
        Ok(masters) => {
            let servers = masters.servers();
            let urls = servers.iter().map(Server::url).collect();
            let pids = servers.iter().map(|server| server.pid().unwrap()).collect();
            rows(table, Stores { urls, pids, suite: suite.to_owned() });
        }
    }
}
