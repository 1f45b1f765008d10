//! etcd: Tenure beside the bare requests of the same client, and beside etcd's own lock service.

mod floor;
mod kinds;
mod peers;

use tenure_servers::etcd::Cluster;

use crate::contest::stores::Stores;
use crate::contest::{crowd, free, handover, on_both};
use crate::figures::Table;
pub(crate) use kinds::KINDS;
use kinds::{BATON, ETCDCTL, FIELD, NOTIFIED, OURS, SERVICE};

/// Adds the rows of one member.
pub(crate) fn run(table: &mut Table) {
    on_members(table, "etcd", 1);
}

/// Adds the rows of three members, which share the cores of the machine.
pub(crate) fn run_three(table: &mut Table) {
    on_members(table, "etcd, three members", 3);
}

fn on_members(table: &mut Table, suite: &str, count: usize) {
    let cluster = match Cluster::of(count) {
        Err(error) => return table.row(suite, format!("absent: {error}"), "–", "–"),
        Ok(cluster) => cluster,
    };
    let members = cluster.members();
    let hosts: Vec<String> =
        members.iter().map(|member| format!("127.0.0.1:{}", member.port())).collect();
    let stores = || Stores {
        urls: vec![format!("etcd://{}", hosts.join(","))],
        pids: members.iter().map(|member| member.pid().unwrap()).collect(),
        suite: suite.to_owned(),
    };
    on_both(table, stores(), |table, stores| {
        free::run(table, stores, &FIELD);
        crowd::few(table, stores, &[OURS, BATON, SERVICE], &[]);
    });
    handover::run(table, &stores(), &NOTIFIED, &[SERVICE, ETCDCTL], &[]);
}
