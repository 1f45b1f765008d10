//! Onlookers look at intervals. An event names how a ticket ended between two looks.

use std::time::Duration;

use tenure_core::event::{Event, EventKind};
use tenure_core::{Loss, TicketId, Watch, WatchEvent};
use tenure_servers::redis::Server;

use super::stage::{connect, play, soon};

/// Returns the next event of this ticket that is one of these kinds. Other events are skipped.
async fn next(watch: &mut Watch, id: TicketId, what: &[EventKind]) -> Event {
    let event = async {
        loop {
            match watch.next().await.unwrap() {
                WatchEvent::Event(event) if event.ticket.id == id && what.contains(&event.kind) => {
                    return event;
                }
                WatchEvent::Event(_) => {}
                seen => panic!("nothing was missed: {seen:?}"),
            }
        }
    };
    soon("it is seen", event).await
}

const ENDS: [EventKind; 3] = [EventKind::Left, EventKind::Expired, EventKind::Broken];

#[test]
fn a_break_is_told_by_its_name_though_the_holder_leaves_at_once() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, others) = (connect(server.url()).await, connect(server.url()).await);
        let mut watch = others.watch_prefix("").await.unwrap();
        for is_forced in [false, true, false, true] {
            let guard = locks.mutex("a").lock().await.unwrap();
            let (id, token, owner) =
                (guard.id(), guard.token().get(), locks.line("a").await.unwrap());
            next(&mut watch, id, &[EventKind::Served]).await;
            if is_forced {
                others.force_unlock("a", id).await.unwrap();
            } else {
                others.break_ticket("a", id).await.unwrap();
            }
            assert_eq!(soon("it is told", guard.lost()).await, Loss::Broken);
            drop(guard);
            let end = next(&mut watch, id, &ENDS).await;
            assert_eq!((end.kind, end.number), (EventKind::Broken, token));
            assert_eq!((end.ticket.key.as_str(), &end.ticket.owner), ("a", &owner[0].owner));
        }
        let guard = locks.mutex("b").lock().await.unwrap();
        let id = guard.id();
        next(&mut watch, id, &[EventKind::Served]).await;
        guard.release().await.unwrap();
        assert_eq!(
            next(&mut watch, id, &ENDS).await.kind,
            EventKind::Left,
            "a release is no break"
        );
    });
}

#[test]
fn a_waiter_that_is_broken_is_told_by_that_name() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, others) = (connect(server.url()).await, connect(server.url()).await);
        let mut watch = others.watch("a").await.unwrap();
        let guard = locks.mutex("a").lock().await.unwrap();
        let waiter = tokio::spawn({
            let mutex = locks.mutex("a");
            async move { mutex.lock().await.map(drop) }
        });
        super::stage::until_line(&others, "a", 2).await;
        let id = others.line("a").await.unwrap()[1].id;
        next(&mut watch, id, &[EventKind::Joined]).await;
        others.break_ticket("a", id).await.unwrap();
        assert_eq!(next(&mut watch, id, &ENDS).await.kind, EventKind::Broken);
        assert!(soon("it is told", waiter).await.unwrap().is_err());
        guard.release().await.unwrap();
    });
}

#[test]
fn the_end_of_a_lease_is_told_by_its_name() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, others) = (connect(server.url()).await, connect(server.url()).await);
        let mut watch = others.watch_prefix("").await.unwrap();
        // It is not renewed: for the server its holder is frozen.
        let mutex = locks.mutex("a").ttl(Duration::from_secs(2)).manual_renewal();
        let guard = mutex.lock().await.unwrap();
        let (id, token) = (guard.id(), guard.token().get());
        next(&mut watch, id, &[EventKind::Served]).await;
        let end = next(&mut watch, id, &ENDS).await;
        assert_eq!((end.kind, end.number), (EventKind::Expired, token));
    });
}
