//! The engine passes every case on a store in a map: in simulated time, where the order of things
//! comes from a seed, and in real time.

#[path = "map/store.rs"]
mod store;

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use store::{Map, Shared};
use tenure_conformance::Arena;
use tenure_conformance::sim::World;
use tenure_core::{BackgroundRuntime, Error};
use tenure_queue::SessionEngine;

mod simulated {
    use super::*;

    async fn arena(world: World) -> Arena {
        let (store, host) = (Shared::on(world.store()), world.process());
        let client = host.clone();
        let open =
            move || ready(Ok::<_, Error>(SessionEngine::new(Map::connect(&store), client.clone())));
        Arena::on(host, Duration::from_secs(9), open)
    }

    tenure_conformance::suite!(simulated: arena);
}

mod real {
    use super::*;

    async fn arena() -> Arena {
        let host = Arc::new(BackgroundRuntime::for_timers());
        let store = Shared::on(host.clone());
        let client = host.clone();
        let open =
            move || ready(Ok::<_, Error>(SessionEngine::new(Map::connect(&store), client.clone())));
        Arena::on(host, Duration::from_secs(1), open).in_real_time()
    }

    tenure_conformance::suite!(arena);
}
