//! An attempt that succeeds after its owner has left leaves again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tenure_conformance::fault::{Distant, Network, Verb, Weather};
use tenure_conformance::sim::World;
use tenure_core::layers::AnyEngine;
use tenure_core::*;
use tenure_redlock::Quorum;

fn ticket(share: Share) -> Ticket {
    Ticket {
        id: TicketId::fresh(),
        key: Key::new("k").unwrap(),
        share,
        ttl: Duration::from_secs(10),
        owner: Owner::shortened(""),
        note: Note::default(),
        floor: 0,
    }
}

#[test]
fn a_try_that_succeeds_after_its_owner_has_left_leaves_again() {
    World::run(1, |world| async move {
        let host = world.process();
        let network = Network::new(Weather::STILL);
        let nodes = [(); 3].map(|()| Memory::with_clock((*world.store()).clone()));
        let far = nodes.clone().map(|node| {
            let (store, here) = (world.store(), host.clone());
            AnyEngine::new(Distant::new(node, store, here, network.clone(), Duration::from_secs(1)))
        });
        let quorum = Arc::new(Quorum::new(far, host.clone(), Duration::from_secs(1)).unwrap());
        let (first, second) = (ticket(Share::WHOLE), ticket(Share::WHOLE));
        assert!(quorum.join(&first, WaitMode::Wait).await.unwrap().is_some());
        let waiting = quorum.join(&second, WaitMode::Wait).await.unwrap().unwrap();
        assert_eq!(waiting.state, TicketState::Waiting);
        quorum.leave(&first, LeaveMode::Now).await.unwrap();
        // The renewer renews the waiter; meanwhile its owner gives up.
        network
            .set_for(Verb::Join, Weather { delay: Duration::from_millis(200), ..Weather::STILL });
        let (keeper, renewed) = (quorum.clone(), second.clone());
        host.spawn(Box::pin(async move {
            let _ = keeper.renew(&renewed).await;
        }));
        host.sleep(Duration::from_millis(1)).await;
        assert_eq!(quorum.leave(&second, LeaveMode::Now).await.unwrap(), LeaveOutcome::Waiting);
        host.sleep(Duration::from_secs(2)).await;
        for node in &nodes {
            let line = node.line(&second.key).now_or_never().unwrap().unwrap();
            assert!(line.is_empty(), "a ticket that left is in the line");
        }
    });
}
