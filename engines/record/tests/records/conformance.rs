//! The engine passes every case over a map of records in memory, with pushes and
//! polled.

use std::future::ready;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_conformance::sim::World;
use tenure_core::Error;

use crate::store::Scripted;

fn open(world: &World, pushes: bool) -> Arena {
    let (store, host) = (Scripted::on(world.store(), pushes), world.process());
    let client = host.clone();
    let connect = move || ready(Ok::<_, Error>(store.client(client.clone())));
    Arena::on(host, Duration::from_secs(9), connect)
}

mod pushed {
    use super::*;

    async fn arena(world: World) -> Arena {
        open(&world, true)
    }

    tenure_conformance::suite!(simulated: arena);
}

mod polled {
    use super::*;

    async fn arena(world: World) -> Arena {
        open(&world, false)
    }

    tenure_conformance::suite!(simulated: arena);
}
