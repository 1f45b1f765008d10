//! A session lives on although the owner of one of its tickets has given it up: that ticket must
//! not.

#[path = "map/store.rs"]
mod store;

use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{Map, Shared};
use tenure_core::{
    BackgroundRuntime, Engine as _, ErrorKind, Key, LeaveMode, Locks, Share, Ticket, TicketState,
    WaitMode, Wake, blocking::block_on,
};
use tenure_queue::SessionEngine;

fn ticket() -> Ticket {
    let ttl = Duration::from_secs(1);
    Ticket { ttl, ..Ticket::new(Key::new("k").unwrap(), Share::WHOLE) }
}

#[test]
fn a_ticket_without_signs_of_life_leaves_though_its_session_lives() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let queue = SessionEngine::new(Map::connect(&Shared::on(host.clone())), host);
    let (given_up, next) = (ticket(), ticket());
    block_on(async {
        let held = queue.join(&given_up, WaitMode::Wait).await.unwrap().expect("it waits");
        let waits = queue.join(&next, WaitMode::Wait).await.unwrap().expect("it waits");
        assert_eq!((held.state, waits.state), (TicketState::Holding, TicketState::Waiting));
        // The next one sends signs of life, with the same session.
        loop {
            let place = queue.renew(&next).await.unwrap().expect("it lives");
            if place.state == TicketState::Holding {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(queue.renew(&given_up).await.unwrap(), None);
        let woken = queue.watch(&next, TicketState::Waiting).await.unwrap();
        assert_eq!(woken, Wake::Served(waits.number));
    });
}

#[test]
fn a_ticket_whose_join_was_never_answered_leaves_though_its_session_lives() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let queue = SessionEngine::new(Map::connect(&store), host);
    let ttl = Duration::from_secs(4);
    let (unanswered, next) = (Ticket { ttl, ..ticket() }, Ticket { ttl, ..ticket() });
    block_on(async {
        store.lose_answers(true);
        let lost = queue.join(&unanswered, WaitMode::Wait).await.unwrap_err();
        assert!(lost.is_retryable(), "{lost}");
        store.lose_answers(false);
        // No caller waits for the join any more. The next caller sends signs of life, with the same
        // session.
        let waits = queue.join(&next, WaitMode::Wait).await.unwrap().expect("it waits");
        assert_eq!(waits.state, TicketState::Waiting, "the one before it is in");
        while queue.renew(&next).await.unwrap().expect("it lives").state == TicketState::Waiting {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(queue.line(&next.key).await.unwrap().len(), 1);
    });
}

#[test]
fn a_join_that_is_answered_when_its_session_is_over_is_made_with_another() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let queue = SessionEngine::new(Map::connect(&store), host);
    // The session is found to be over while the answer is on its way.
    store.outlive_next(Duration::from_millis(700));
    let ticket = ticket();
    block_on(async {
        let place = queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        assert!(place.life.is_some_and(|life| !life.is_zero()), "{place:?}");
        assert_eq!(place.state, TicketState::Holding);
        let renewed = queue.renew(&ticket).await.unwrap().expect("it is in the line");
        assert_eq!(renewed.number, place.number);
    });
}

#[test]
fn a_join_that_is_answered_later_than_its_ticket_would_live_is_in_its_line() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let queue = SessionEngine::new(Map::connect(&store), host);
    block_on(async {
        let warm = Ticket { key: Key::new("warm").unwrap(), ..ticket() };
        queue.join(&warm, WaitMode::Wait).await.unwrap().expect("it waits");
        // Its session lives on meanwhile.
        store.be_late_next(Duration::from_millis(1700));
        let ticket = ticket();
        let place = queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        assert!(place.life.is_some_and(|life| !life.is_zero()), "{place:?}");
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(50));
            let renewed = queue.renew(&ticket).await.unwrap().expect("it is in the line");
            assert_eq!((renewed.number, renewed.state), (place.number, TicketState::Holding));
        }
    });
}

#[test]
fn a_renewal_counts_from_a_sign_of_life_that_was_given_lately() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let queue = SessionEngine::new(Map::connect(&Shared::on(host.clone())), host);
    block_on(async {
        let ticket = ticket();
        queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        // Signs of life come every third of a life. Renewals come before them, after them, and in
        // between.
        for round in 0..40 {
            std::thread::sleep(Duration::from_millis(round * 37 % 340));
            let asked = Instant::now();
            let place = queue.renew(&ticket).await.unwrap().expect("it is in the line");
            let life = place.life.expect("its remaining life is known") + asked.elapsed();
            assert!(life >= ticket.ttl * 7 / 9, "{life:?} of {:?}", ticket.ttl);
        }
    });
}

#[test]
fn a_session_of_which_a_store_is_never_sure_hurries_for_a_while_only() {
    const TTL: Duration = Duration::from_secs(3);
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    store.be_unsure();
    let queue = SessionEngine::new(Map::connect(&store), host);
    block_on(async {
        let ticket = Ticket { ttl: TTL, ..ticket() };
        queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        for _ in 0..6 {
            std::thread::sleep(TTL / 2);
            // On a busy machine the session may be over, which means fewer signs of life.
            let _ = queue.renew(&ticket).await;
        }
    });
    // Nine signs of life are due, six more follow one another in a hurry, and each of six renewals
    // may send one. If all were in a hurry, there would be 36.
    assert!(store.signs() <= 24, "{} signs of life", store.signs());
}

#[test]
fn the_store_forgets_every_ticket_that_is_done_with() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let queue = SessionEngine::new(Map::connect(&store), host);
    let short = Ticket { ttl: Duration::from_secs(1), ..ticket() };
    let long = Ticket { ttl: Duration::from_secs(60), ..ticket() };
    block_on(async {
        let held = queue.join(&long, WaitMode::Wait).await.unwrap().expect("it waits");
        assert_eq!(held.state, TicketState::Holding);
        assert_eq!(queue.join(&ticket(), WaitMode::NoWait).await.unwrap(), None);
        assert_eq!(store.knows(), 1, "a refused ticket is not known any more");
        queue.join(&short, WaitMode::Wait).await.unwrap().expect("it waits");
        // Another client breaks it, and its owner finds out by itself.
        queue.leave(&short, LeaveMode::Graceful).await.unwrap();
        assert_eq!(queue.renew(&short).await.unwrap(), None);
        assert_eq!(store.knows(), 1, "a broken ticket is not known any more");
        let given_up = Ticket { ttl: Duration::from_secs(1), ..ticket() };
        queue.join(&given_up, WaitMode::Wait).await.unwrap().expect("it waits");
        while store.knows() > 1 {
            std::thread::sleep(Duration::from_millis(50));
        }
        queue.leave(&long, LeaveMode::Now).await.unwrap();
        assert_eq!(store.knows(), 0, "a ticket that left is not known any more");
    });
}

#[test]
fn a_ticket_that_came_back_unknown_is_asked_to_leave_and_has_a_ttl_to_stop() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let queue = SessionEngine::new(Map::connect(&store), host);
    let ticket = ticket();
    block_on(async {
        queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        queue.leave(&ticket, LeaveMode::Now).await.unwrap();
        store.enter_again();
        let began = Instant::now();
        loop {
            let line = queue.line(&ticket.key).await.unwrap();
            assert_eq!(line.len(), 1, "it is asked to leave before it is removed");
            if line[0].1.leaving {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        while !queue.line(&ticket.key).await.unwrap().is_empty() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(began.elapsed() >= ticket.ttl, "it is taken out after {:?}", began.elapsed());
        // It may come in by the same name.
        let place = queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        assert_eq!(place.state, TicketState::Holding);
        assert_eq!(queue.renew(&ticket).await.unwrap().expect("it lives").number, place.number);
    });
}

#[test]
fn an_orphan_that_has_left_since_it_was_listed_is_not_adopted() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let queue = SessionEngine::new(Map::connect(&store), host);
    let (ticket, next) =
        ([(); 2]).map(|()| Ticket { ttl: Duration::from_secs(3), ..ticket() }).into();
    block_on(async {
        queue.join(&ticket, WaitMode::Wait).await.unwrap().expect("it waits");
        queue.leave(&ticket, LeaveMode::Now).await.unwrap();
        let before = store.orphan_requests();
        store.list_outdated_orphan();
        // A client handles one list before it asks for the next one. The first new list has the
        // orphan.
        while store.orphan_requests() < before + 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        queue.join(&next, WaitMode::Wait).await.unwrap().expect("it waits");
        let before = store.front_requests();
        queue.leave(&next, LeaveMode::Now).await.unwrap();
        let asked = store.front_requests() - before;
        assert_eq!(asked, 0, "a lone ticket leaves without a look at its line");
    });
}

#[test]
fn no_ticket_joins_with_a_session_that_may_be_over_at_once() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let queue = SessionEngine::new(Map::connect(&store), host);
    let ttl = Duration::from_secs(6);
    let (first, late, next) = ([(); 3]).map(|()| Ticket { ttl, ..ticket() }).into();
    block_on(async {
        queue.join(&first, WaitMode::Wait).await.unwrap().expect("it waits");
        store.be_deaf(true);
        while queue.renew(&first).await.unwrap().expect("it lives").life.unwrap() > ttl / 3 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let refused = queue.join(&late, WaitMode::Wait).await.unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        store.be_deaf(false);
        let place = queue.join(&next, WaitMode::Wait).await.unwrap().expect("it waits");
        assert!(place.life.unwrap() > ttl / 2, "{place:?}");
    });
}

#[test]
fn a_waiter_of_a_client_that_is_closed_opens_no_other_session() {
    let host = Arc::new(BackgroundRuntime::for_timers());
    let store = Shared::on(host.clone());
    let (locks, other) = (
        Locks::on(SessionEngine::new(Map::connect(&store), host.clone()), host.clone()),
        Locks::on(SessionEngine::new(Map::connect(&store), host.clone()), host),
    );
    block_on(async {
        let guard = other.mutex("k").lock().await.unwrap();
        let waiter = std::thread::spawn({
            let mutex = locks.mutex("k");
            move || block_on(mutex.lock()).map(drop)
        });
        while other.line("k").await.unwrap().len() < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        locks.close().await;
        waiter.join().unwrap().expect_err("its client was closed");
        let late = locks.mutex("late").try_lock().await.map(drop).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Invalid, "{late}");
        assert_eq!(other.keys("").await.unwrap(), [Key::new("k").unwrap()]);
        assert_eq!(other.line("k").await.unwrap().len(), 1);
        guard.release().await.unwrap();
    });
}
