//! A quorum of stores, verb by verb.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tenure_core::blocking::block_on;
use tenure_core::wrap::{AnyEngine, Quorum};
use tenure_core::{
    Engine as _, Key, Leave, Left, Memory, Patience, PrivateThread, Share, Standing, Ticket, Wake,
};

const STORES: usize = 3;

fn stores() -> [Memory; STORES] {
    [(); STORES].map(|()| Memory::new())
}

fn quorum(stores: &[Memory]) -> Quorum {
    let host = Arc::new(PrivateThread::for_timers());
    Quorum::new(stores.iter().cloned().map(AnyEngine::new), host, Duration::from_millis(100))
        .unwrap()
}

fn ticket() -> Ticket {
    Ticket::new(Key::new("k").unwrap(), Share::WHOLE)
}

#[test]
fn a_holder_hears_nothing_until_a_majority_has_something_to_tell() {
    let (stores, ticket) = (stores(), ticket());
    let quorum = quorum(&stores);
    let place = block_on(quorum.join(&ticket, Patience::NoWait)).unwrap().unwrap();
    assert_eq!(place.standing, Standing::Holding);
    let mut told = pin!(quorum.watch(&ticket, Standing::Holding));
    let mut context = Context::from_waker(Waker::noop());
    assert!(told.as_mut().poll(&mut context).is_pending(), "nothing has happened");
    for (count, store) in (1..=2).zip(&stores) {
        let (seat, _) = block_on(store.line(&ticket.key)).unwrap().remove(0);
        assert_eq!(block_on(store.leave(&seat, Leave::Soon)).unwrap(), Left::Told);
        let told = told.as_mut().poll(&mut context);
        assert_eq!(told.is_ready(), count == 2, "{count} of {STORES} tell something");
        assert!(matches!(told, Poll::Pending | Poll::Ready(Ok(Wake::Look))));
    }
}

#[test]
fn a_quorum_has_the_name_of_its_kind() {
    let named = quorum(&stores()).named("redlock", ["a", "b", "c"].map(String::from));
    assert_eq!(named.profile().name, "redlock");
}
