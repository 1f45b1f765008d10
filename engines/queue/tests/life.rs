//! A session lives on although the owner of one of its tickets has given it up: that ticket must not.

#[path = "map/store.rs"]
mod store;

use std::sync::Arc;
use std::time::Duration;

use store::{Map, Shared};
use tenure_core::{
    Engine as _, Key, Patience, PrivateThread, Share, Standing, Ticket, Wake, blocking::block_on,
};
use tenure_queue::Queue;

fn ticket() -> Ticket {
    let ttl = Duration::from_secs(1);
    Ticket { ttl, ..Ticket::new(Key::new("k").unwrap(), Share::WHOLE) }
}

#[test]
fn a_ticket_without_signs_of_life_leaves_though_its_session_lives() {
    let host = Arc::new(PrivateThread::for_timers());
    let queue = Queue::new(Map::connect(&Shared::on(host.clone())), host);
    let (given_up, next) = (ticket(), ticket());
    block_on(async {
        let held = queue.join(&given_up, Patience::Wait).await.unwrap().expect("it waits");
        let waits = queue.join(&next, Patience::Wait).await.unwrap().expect("it waits");
        assert_eq!((held.standing, waits.standing), (Standing::Holding, Standing::Waiting));
        // The next one gives signs of life, by the same session.
        loop {
            let place = queue.renew(&next).await.unwrap().expect("it lives");
            if place.standing == Standing::Holding {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(queue.renew(&given_up).await.unwrap(), None);
        let woken = queue.watch(&next, Standing::Waiting).await.unwrap();
        assert_eq!(woken, Wake::Served(waits.number));
    });
}
