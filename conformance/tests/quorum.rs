//! The suite on a quorum of three memory stores: it promises no order, no push and no counts, and the
//! cases about these say so.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_conformance::sim::World;
use tenure_core::wrap::{AnyEngine, Quorum};
use tenure_core::{
    Engine as _, Host, Key, Leave, Memory, Patience, Share, Standing, Ticket, TicketId,
};

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

/// The holder leaves, and the waiter is served at once; nothing of its earlier tries may take it out again.
#[test]
fn a_try_that_failed_does_not_take_out_the_next() {
    for seed in 1..=300 {
        World::run(seed, |world| async move {
            let nodes = [(); 3].map(|()| Memory::with_clock((*world.store()).clone()));
            let client = || {
                let nodes = nodes.clone().map(AnyEngine::new);
                Quorum::new(nodes, world.process(), Duration::from_millis(50)).unwrap()
            };
            let (one, two, three) = (client(), client(), client());
            let ticket = || Ticket {
                id: TicketId::fresh(),
                key: Key::new("k").unwrap(),
                share: Share::WHOLE,
                ttl: Duration::from_secs(30),
                owner: "".into(),
                note: "".into(),
                floor: 0,
            };
            let (holder, waiter) = (ticket(), ticket());
            one.join(&holder, Patience::Wait).await.unwrap().unwrap();
            two.join(&waiter, Patience::Wait).await.unwrap().unwrap();
            one.leave(&holder, Leave::Now).await.unwrap();
            while two.renew(&waiter).await.unwrap().unwrap().standing == Standing::Waiting {}
            let second = three.join(&ticket(), Patience::NoWait).await.unwrap();
            assert_eq!(second, None, "there are two holders (seed {seed})");
            assert!(two.renew(&waiter).await.unwrap().is_some(), "it is taken out (seed {seed})");
        });
    }
}
