//! The suite on a quorum of three memory stores. It promises no order, no push and no counters, and
//! the cases of these are skipped.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tenure_conformance::Arena;
use tenure_conformance::sim::World;
use tenure_core::layers::AnyEngine;
use tenure_core::{
    Engine as _, Key, LeaveMode, Memory, Note, Owner, Runtime, Share, Ticket, TicketId,
    TicketState, WaitMode,
};
use tenure_redlock::Quorum;

type Stores = [Memory; 3];

fn stores(world: &World) -> Stores {
    [(); 3].map(|()| Memory::with_clock((*world.store()).clone()))
}

fn quorum(stores: &Stores, turns: Option<&Stores>, host: Arc<dyn Runtime>) -> Quorum {
    let engines = |stores: &Stores| stores.clone().map(AnyEngine::new);
    let quorum = Quorum::new(engines(stores), host, Duration::from_millis(50)).unwrap();
    quorum.with_wait_queues(turns.map(engines).into_iter().flatten())
}

fn arena(world: &World, turns: Option<Stores>) -> Arena {
    let (stores, host): (_, Arc<dyn Runtime>) = (stores(world), world.process());
    let home = host.clone();
    let open = move || ready(Ok(quorum(&stores, turns.as_ref(), home.clone())));
    Arena::on(host, Duration::from_secs(9), open)
}

/// Waiters poll.
mod by_pauses {
    tenure_conformance::suite!(simulated: async |world| super::arena(&world, None));
}

/// Waiters have a line.
mod by_turns {
    tenure_conformance::suite!(simulated: async |world| super::arena(&world, Some(super::stores(&world))));
}

/// The holder leaves, and the waiter is served at once. Its earlier attempts must not remove it
/// again.
#[test]
fn a_try_that_failed_does_not_take_out_the_next() {
    for seed in 1..=300 {
        World::run(seed, |world| async move {
            let (nodes, turns) = (stores(&world), stores(&world));
            let turns = Some(&turns).filter(|_| seed % 2 == 0);
            let client = || quorum(&nodes, turns, world.process());
            let (one, two, three) = (client(), client(), client());
            let ticket = || Ticket {
                id: TicketId::fresh(),
                key: Key::new("k").unwrap(),
                share: Share::WHOLE,
                ttl: Duration::from_secs(30),
                owner: Owner::shortened(""),
                note: Note::default(),
                floor: 0,
            };
            let (holder, waiter) = (ticket(), ticket());
            one.join(&holder, WaitMode::Wait).await.unwrap().unwrap();
            two.join(&waiter, WaitMode::Wait).await.unwrap().unwrap();
            one.leave(&holder, LeaveMode::Now).await.unwrap();
            while two.renew(&waiter).await.unwrap().unwrap().state == TicketState::Waiting {}
            let second = three.join(&ticket(), WaitMode::NoWait).await.unwrap();
            assert_eq!(second, None, "two hold at once (seed {seed})");
            assert!(
                two.renew(&waiter).await.unwrap().is_some(),
                "the waiter was removed (seed {seed})"
            );
        });
    }
}
