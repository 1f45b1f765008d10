//! ZooKeeper: Tenure beside the bare requests of the same client, and beside the locks of three
//! clients.

mod crowd;
mod floor;
mod kinds;
mod peers;

use tenure_servers::Store as _;
use tenure_servers::zookeeper::Ensemble;

use crate::contest::stores::Stores;
use crate::contest::{crowd as fairness, free, handover, on_both};
use crate::figures::Table;
pub(crate) use kinds::KINDS;
use kinds::{CRATE, DROPPED, ELSEWHERE, FIELD, NOTIFIED, OURS};

/// Adds the rows of one server.
pub(crate) fn run(table: &mut Table) {
    on_servers(table, "zookeeper", 1);
}

/// Adds the rows of three servers, which share the cores of the machine.
pub(crate) fn run_three(table: &mut Table) {
    on_servers(table, "zookeeper, three servers", 3);
}

fn on_servers(table: &mut Table, suite: &str, count: usize) {
    let ensemble = match Ensemble::of(count) {
        Err(error) => return table.row(suite, format!("absent: {error}"), "–", "–"),
        Ok(ensemble) => ensemble,
    };
    let stores = || Stores {
        urls: vec![ensemble.url()],
        pids: ensemble.servers().iter().map(|server| server.pid().unwrap()).collect(),
        suite: suite.to_owned(),
    };
    on_both(table, stores(), |table, stores| {
        free::run(table, stores, &FIELD);
        free::run_beside(table, stores, "lock, and drop it", &[DROPPED, CRATE]);
        fairness::few(table, stores, &[OURS, CRATE], ELSEWHERE);
    });
    handover::run(table, &stores(), &NOTIFIED, &[CRATE], ELSEWHERE);
    crowd::run(table, &stores(), &ensemble);
}
