//! `tenure once` on each server, with machines that die and a server that is restarted.

use std::time::Duration;

use tenure_servers::etcd::{Cluster, ETCD};
use tenure_servers::mongodb::{MONGOD, Server};
use tenure_servers::redis::Setup;
use tenure_servers::zookeeper::{Ensemble, ZOOKEEPER};
use tenure_servers::{Store as _, have};

use crate::kit::{Store, redis};
use crate::once::{a_killed_run, machines_that_die, three_crons};

/// Longer than the lease of a run.
const PAUSE: Duration = Duration::from_millis(2_500);

fn all(store: &Store, restart: impl Fn()) {
    three_crons(store);
    let other = Store::at(store.url());
    machines_that_die(&other, 12, PAUSE, restart);
}

#[test]
fn on_redis_each_slot_succeeds_once() {
    let Some((server, store)) = redis(Setup::new().appendonly()) else { return };
    all(&store, || {
        server.kill().unwrap();
        server.restart().unwrap();
    });
    let other = Setup::new().start().unwrap();
    a_killed_run(&Store::at(other.url()));
}

#[test]
fn on_mongodb_each_slot_succeeds_once() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().unwrap();
    all(&Store::at(server.url()), || {
        server.kill().unwrap();
        server.restart().unwrap();
    });
}

#[test]
fn on_etcd_each_slot_succeeds_once() {
    if !have(&[ETCD]) {
        return;
    }
    let cluster = Cluster::of(1).unwrap();
    all(&Store::at(cluster.url()), || {
        cluster.members()[0].kill().unwrap();
        cluster.members()[0].restart().unwrap();
    });
}

#[test]
fn on_zookeeper_each_slot_succeeds_once() {
    if !have(&[ZOOKEEPER]) {
        return;
    }
    let ensemble = Ensemble::of(1).unwrap();
    all(&Store::at(ensemble.url()), || {
        ensemble.servers()[0].kill().unwrap();
        ensemble.servers()[0].restart().unwrap();
    });
}
