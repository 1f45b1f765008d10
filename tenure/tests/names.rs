//! Users can name every type that this crate returns, in a field, an argument or a signature.

#![cfg(feature = "all")]

use std::path::Path;

use tenure::Result;
use tenure::engine::{FileStore, MongoStore, NodeHealth, Quorum, QuorumHealth};
use tenure::mongodb::documents::Documents;
use tenure::redis::RedLock;

fn of_a_redlock(
    redlock: &RedLock,
) -> (&tenure::redis::QuorumHealth, Vec<tenure::redis::NodeHealth>) {
    (redlock.board(), redlock.board().answers())
}

fn of_a_quorum(quorum: &Quorum) -> (QuorumHealth, Vec<NodeHealth>) {
    (quorum.board(), quorum.board().answers())
}

fn of_files(path: &Path, settings: tenure::file::Settings) -> Result<FileStore> {
    FileStore::open_with(path, settings)
}

async fn of_mongodb(url: &str, documents: &Documents) -> Result<MongoStore> {
    MongoStore::of_documents(url, documents).await
}

#[test]
fn returned_types_can_be_named() {
    // It compiles, which is the whole test.
    let _ = (of_a_redlock, of_a_quorum, of_files);
    drop(of_mongodb("mongodb://localhost", &Documents::default()));
}
