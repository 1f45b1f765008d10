//! The suite on the reference engine: in simulated time, where the order of things comes from a seed,
//! and in real time, on threads.

use std::future::ready;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_conformance::sim::World;
use tenure_core::wrap::Hosted;
use tenure_core::{Error, Memory};

/// Called in place, in a world of its own.
mod simulated {
    use super::*;

    async fn arena(world: World) -> Arena {
        let store = Memory::with_clock((*world.store()).clone());
        let open = move || ready(Ok::<_, Error>(store.clone()));
        Arena::on(world.process(), Duration::from_secs(9), open)
    }

    tenure_conformance::suite!(simulated: arena);
}

/// Every verb is a task of its own: their order is up to the seed.
mod scattered {
    use super::*;

    async fn arena(world: World) -> Arena {
        let store = Memory::with_clock((*world.store()).clone());
        let host = world.process();
        let home = host.clone();
        let open = move || Hosted::make(home.clone(), ready(Ok(store.clone())));
        Arena::on(host, Duration::from_secs(9), open)
    }

    tenure_conformance::suite!(simulated: arena);
}

/// In real time, with real threads.
mod real {
    use super::*;

    async fn arena() -> Arena {
        let store = Memory::new();
        Arena::new(move || ready(Ok::<_, Error>(store.clone())))
    }

    tenure_conformance::suite!(arena);
}
