//! The toy passes every case, as an engine by hand and as a store of records: in simulated time,
//! where a seed orders the tasks, and in real time.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_conformance::sim::World;
use tenure_core::{BackgroundRuntime, Error};
use tenure_record::RecordEngine;
use tenure_toy::{Toy, ToyRecords, ToyStore};

/// Maximum operations of a client at a time.
const CALLS_MAX: usize = 4;

mod simulated {
    use super::*;

    async fn arena(world: World) -> Arena {
        let (store, host) = (ToyStore::on(world.store()), world.process());
        let client = host.clone();
        let open = move || ready(Ok::<_, Error>(Toy::connect(&store, client.clone())));
        Arena::on(host, Duration::from_secs(9), open)
    }

    tenure_conformance::suite!(simulated: arena);
}

mod real {
    use super::*;

    async fn arena() -> Arena {
        let host = Arc::new(BackgroundRuntime::for_timers());
        let store = ToyStore::on(host.clone());
        Arena::new(move || ready(Ok::<_, Error>(Toy::connect(&store, host.clone()))))
    }

    tenure_conformance::suite!(arena);
}

mod records_simulated {
    use super::*;

    async fn arena(world: World) -> Arena {
        let (store, host) = (ToyRecords::on(world.store()), world.process());
        let client = host.clone();
        let open = move || {
            ready(Ok::<_, Error>(RecordEngine::new(store.clone(), client.clone(), CALLS_MAX)))
        };
        Arena::on(host, Duration::from_secs(9), open)
    }

    tenure_conformance::suite!(simulated: arena);
}

mod records_real {
    use super::*;

    async fn arena() -> Arena {
        let host = Arc::new(BackgroundRuntime::for_timers());
        let store = ToyRecords::on(host.clone());
        let open = move || {
            ready(Ok::<_, Error>(RecordEngine::new(store.clone(), host.clone(), CALLS_MAX)))
        };
        Arena::hosted(open)
    }

    tenure_conformance::suite!(arena);
}
