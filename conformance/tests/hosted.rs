//! The suite on an engine that lives on a thread of its own, as every engine with a network does.

use std::future::ready;

use tenure_conformance::Arena;
use tenure_core::{Error, Memory};

async fn arena() -> Arena {
    let store = Memory::new();
    Arena::hosted(move || ready(Ok::<_, Error>(store.clone())))
}

tenure_conformance::suite!(arena);
