//! The file engine passes every case, with helper processes that are killed and stopped.
#![cfg(unix)]

use std::future::{Ready, ready};

use tenure_conformance::Arena;
use tenure_core::{Locks, Result};
use tenure_file::{FileStore, connect};

fn arena() -> Ready<Arena> {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().to_owned();
    let url = format!("file:{}", path.display());
    ready(Arena::new(move || ready(FileStore::open(&path))).shared(url).keeping(folder))
}

async fn locks(url: String) -> Result<Locks> {
    connect(&url).map(Locks::new)
}

tenure_conformance::suite!(arena, shared: locks);
