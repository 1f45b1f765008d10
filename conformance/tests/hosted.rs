//! The suite on an engine that lives on a thread of its own, as every engine with a network does.

use std::future::ready;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_core::{Error, Memory};

async fn arena() -> Arena {
    let store = Memory::new();
    let open = move || ready(Ok::<_, Error>(store.clone()));
    Arena::hosted(open).with_ttl(Duration::from_millis(250))
}

tenure_conformance::suite!(arena);
