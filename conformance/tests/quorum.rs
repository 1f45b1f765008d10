//! The suite on a quorum of three memory stores: it promises no order, no push and no counts, and the
//! cases about these say so.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_conformance::sim::World;
use tenure_core::wrap::{AnyEngine, Quorum};
use tenure_core::{Host, Memory};

async fn arena(world: World) -> Arena {
    let nodes = [(); 3].map(|()| Memory::with_clock((*world.store()).clone()));
    let host: Arc<dyn Host> = world.process();
    let home = host.clone();
    let open = move || {
        let nodes = nodes.clone().map(AnyEngine::new);
        ready(Quorum::new(nodes, home.clone(), Duration::from_millis(50)))
    };
    Arena::on(host, Duration::from_secs(9), open)
}

tenure_conformance::suite!(simulated: arena);
