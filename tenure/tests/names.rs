//! Users can name every type that this crate returns, in a field, an argument or a signature.

#![cfg(feature = "all")]

use std::path::Path;

use tenure::engine::{AnyEngine, FileStore, NodeHealth, Quorum, QuorumHealth};
use tenure::mongodb::documents::Documents;
use tenure::redis::RedLock;
use tenure::{Locks, Result};

fn of_a_redlock(
    redlock: &RedLock,
) -> (&tenure::redis::QuorumHealth, Vec<tenure::redis::NodeHealth>) {
    (redlock.health(), redlock.health().answers())
}

fn of_a_quorum(quorum: &Quorum) -> (QuorumHealth, Vec<NodeHealth>) {
    (quorum.health(), quorum.health().answers())
}

fn of_files(path: &Path, settings: tenure::file::Settings) -> Result<FileStore> {
    FileStore::open_with(path, settings)
}

async fn of_settings(
    redis: tenure::redis::Settings,
    etcd: tenure::etcd::Settings,
    zookeeper: tenure::zookeeper::Settings,
    (tls, policy): (tenure::redis::Tls, tenure::redis::AfterRestart),
    (pem, acl): (tenure::zookeeper::Pem, tenure::zookeeper::AclOwner),
) -> Result<[Locks; 3]> {
    let tls = tls.ca(pem);
    let redis = redis.tls(tls.clone()).after_restart(policy).connect().await?;
    let etcd = etcd.tls(tls.clone()).connect().await?;
    Ok([redis, etcd, zookeeper.tls(tls).acl(acl)?.connect().await?])
}

async fn of_mongodb(url: &str, documents: &Documents) -> Result<AnyEngine> {
    documents.engine(url).await
}

#[test]
fn returned_types_can_be_named() {
    // It compiles, which is the whole test.
    let _ = (of_a_redlock, of_a_quorum, of_files, of_settings);
    drop(of_mongodb("mongodb://localhost", &Documents::default()));
}
