//! Listeners: all consumers of one client share one change stream, which never uses a connection
//! that commands need.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mongodb::Client;
use mongodb::options::ClientOptions;
use tenure_conformance::fault::{Act, Match, Proxy};
use tenure_core::{
    Engine as _, Key, LeaveMode, Locks, MutexGuard, Share, Ticket, TicketState, Wake,
};
use tenure_mongodb::Settings;
use tenure_servers::mongodb::{Server, Setup, doc};

use super::stage::{
    LONG, ask, connect, count, join, look_at, play, soon, store, streams, ticket, until,
};

/// Elections that one client may observe.
const OBSERVED: usize = 64;
/// Several renewals in a row are no accident.
const RENEWALS: usize = 3;

/// Asserts that a lock which has to be renewed soon is renewed.
async fn is_renewed(server: &Server, guard: &MutexGuard) {
    let ends = || {
        let record = look_at(server, guard.key().as_str()).expect("it is held");
        let seat = record.get_array("held").unwrap()[0].as_document().unwrap().clone();
        seat.get_i64("ends").unwrap()
    };
    for _ in 0..RENEWALS {
        let before = ends();
        until("it is renewed", async || ends() > before).await;
    }
    guard.check().unwrap();
}

async fn held(locks: &Locks) -> MutexGuard {
    locks
        .mutex("own")
        .ttl(Duration::from_secs(9))
        .renew_every(Duration::from_millis(500))
        .lock()
        .await
        .unwrap()
}

/// Observes each of these elections in a task of its own, which ends with the first leader.
async fn observe(locks: &Locks, count: usize) -> Vec<tokio::task::JoinHandle<u64>> {
    let mut observers = Vec::new();
    for nth in 0..count {
        let mut leaders = locks.election(format!("e{nth}")).observe().await.unwrap();
        observers.push(tokio::spawn(async move {
            loop {
                if let Some(leader) = leaders.next().await.unwrap() {
                    return leader.term;
                }
            }
        }));
    }
    observers
}

#[test]
fn elections_that_are_observed_share_one_stream_and_take_nothing_from_locks() {
    play(async || {
        for (pool, elections) in [("", OBSERVED), ("&maxPoolSize=1", 4)] {
            let server = Server::start().unwrap();
            let locks = connect(format!("{}{pool}", server.url())).await;
            let guard = held(&locks).await;
            let observers = observe(&locks, elections).await;
            is_renewed(&server, &guard).await;
            until("one stream is open", async || streams(&server).len() == 1).await;
            let other = connect(server.url()).await;
            let mut leads = Vec::new();
            for (nth, observer) in observers.into_iter().enumerate() {
                let seat = other.election(format!("e{nth}")).campaign().await.unwrap();
                assert_eq!(soon("it is told", observer).await.unwrap(), seat.token());
                leads.push(seat);
            }
            guard.release().await.unwrap();
            // No observer listens any more.
            until("no stream is open", async || streams(&server).is_empty()).await;
        }
    });
}

/// Waits in two lines and observes one. All are notified by one stream, which ends soon after them.
#[test]
fn what_waits_and_what_looks_on_share_one_stream_which_ends_with_them() {
    play(async || {
        let server = Server::start().unwrap();
        let (here, there) = (connect(server.url()).await, connect(server.url()).await);
        let mut waits = Vec::new();
        for key in ["a", "b"] {
            let front = there.mutex(key).lock().await.unwrap();
            let lock = here.mutex(key);
            let next = tokio::spawn(async move { lock.lock().await });
            waits.push((front, next));
        }
        let observers = observe(&here, 2).await;
        until("one stream hears all of them", async || {
            let all = streams(&server);
            let hears = |what: &str| all.iter().all(|pipeline| pipeline.contains(what));
            all.len() == 1 && hears("$regex") && hears("documentKey._id")
        })
        .await;
        for (front, next) in waits {
            front.release().await.unwrap();
            let guard = soon("it is handed over", next).await.unwrap().unwrap();
            guard.release().await.unwrap();
        }
        drop(observers);
        here.close().await;
        until("no stream is open", async || streams(&server).is_empty()).await;
    });
}

/// A ticket that waited while the stream was open, and again after it was closed, misses nothing.
#[test]
fn a_stream_that_was_closed_opens_for_the_next_one_who_waits() {
    play(async || {
        let server = Server::start().unwrap();
        let (here, there) = (store(&server.url()).await, store(&server.url()).await);
        let (held, waits) = (ticket("a", LONG), ticket("a", LONG));
        join(&there, &held).await;
        join(&here, &waits).await;
        {
            let watch = here.watch(&waits, TicketState::Waiting);
            let opens = until("the stream opens", async || streams(&server).len() == 1);
            tokio::select! { woken = watch => panic!("{woken:?}"), () = opens => {} }
        }
        until("the stream is closed", async || streams(&server).is_empty()).await;
        there.leave(&held, LeaveMode::Now).await.unwrap();
        let woken = soon("it is served", here.watch(&waits, TicketState::Waiting)).await.unwrap();
        assert!(matches!(woken, Wake::Served(_)), "{woken:?}");
    });
}

#[test]
fn a_held_lock_that_listens_for_its_loss_opens_no_stream() {
    play(async || {
        for setup in [Setup::new(), Setup::new().standalone()] {
            let server = setup.start().unwrap();
            let locks = connect(server.url()).await;
            for broken in [true, false] {
                let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
                let before = count(&server, "find");
                let held = guard.handle();
                let lost = tokio::spawn(async move { held.lost().await });
                until("it looks now and then", async || count(&server, "find") >= before + 3).await;
                assert!(streams(&server).is_empty());
                if broken {
                    let other = connect(server.url()).await;
                    other.break_ticket("a", guard.id()).await.unwrap();
                } else {
                    ask(&server, doc! { "drop": "locks" });
                }
                soon("it hears of it", lost).await.unwrap();
            }
        }
    });
}

/// One read covers all listening permits of a line, and not only the first ones.
#[test]
fn the_last_of_many_permits_hears_that_it_is_broken() {
    const PERMITS: u32 = 20;
    play(async || {
        let server = Server::start().unwrap();
        let (here, there) = (Arc::new(store(&server.url()).await), store(&server.url()).await);
        let mut last = None;
        for _ in 0..PERMITS {
            let permit = Ticket {
                ttl: LONG,
                ..Ticket::new(Key::new("a").unwrap(), Share::new(1, PERMITS).unwrap())
            };
            join(&here, &permit).await;
            let (store, id) = (here.clone(), permit.id);
            let heard = async move { store.watch(&permit, TicketState::Holding).await };
            last = Some((id, tokio::spawn(heard)));
        }
        let (id, heard) = last.unwrap();
        let before = count(&server, "find");
        until("it looks now and then", async || count(&server, "find") >= before + 2).await;
        let line = there.line(&Key::new("a").unwrap()).await.unwrap();
        let (broken, _) = line.into_iter().find(|(ticket, _)| ticket.id == id).unwrap();
        there.leave(&broken, LeaveMode::Graceful).await.unwrap();
        let before = count(&server, "find");
        let looks = until("it looks", async || count(&server, "find") >= before + 10);
        tokio::select! {
            woken = heard => assert_eq!(woken.unwrap().unwrap(), Wake::Look),
            () = looks => panic!("ten looks have not found it"),
        }
    });
}

/// The answers on the connection of a stream stop, while all others go on. TCP would detect it only
/// after hours.
#[test]
fn a_stream_whose_connection_is_silent_is_opened_again() {
    play(async || {
        let server = Server::start().unwrap();
        let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()))).unwrap();
        let url = format!("mongodb://{}/?directConnection=true", proxy.address());
        let client = Client::with_uri_str(url).await.unwrap();
        let settings = Settings::new().timeout(Duration::from_secs(2));
        let locks = tenure_mongodb::connect_over(client, settings).await.unwrap();
        let silent = proxy.on(Match::request_containing("getMore").nth(2), Act::HoldReply);
        let observer = observe(&locks, 1).await.remove(0);
        until("the stream is silent", async || silent.is_hit()).await;
        let seat = connect(server.url()).await.election("e0").campaign().await.unwrap();
        // By then the dead connection would still be waited for.
        let told = tokio::time::timeout(Duration::from_secs(60), observer).await;
        assert_eq!(told.expect("it is told").unwrap(), seat.token());
    });
}

#[test]
fn a_stream_opens_whatever_read_concern_the_url_or_a_borrowed_client_has() {
    play(async || {
        for level in ["local", "available", "linearizable", "majority"] {
            let server = Server::start().unwrap();
            let url = format!("{}&readConcernLevel={level}", server.url());
            let client = Client::with_options(ClientOptions::parse(&url).await.unwrap()).unwrap();
            let borrowed = tenure_mongodb::connect_over(client, Settings::new()).await.unwrap();
            for locks in [connect(&url).await, borrowed] {
                let front = connect(server.url()).await.mutex("a").lock().await.unwrap();
                let lock = locks.mutex("a");
                let next = tokio::spawn(async move { lock.lock().await });
                until("it listens", async || streams(&server).len() == 1).await;
                front.release().await.unwrap();
                let guard = soon("it is handed over", next).await.unwrap().unwrap();
                guard.release().await.unwrap();
                until("no stream is open", async || streams(&server).is_empty()).await;
            }
        }
    });
}

/// The right to open change streams is revoked after the store was opened: the waiter polls.
#[test]
fn a_waiter_polls_where_the_stream_is_refused() {
    play(async || {
        let server = Setup::new().start().unwrap();
        let (holder, waiter) = (store(&server.url()).await, store(&server.url()).await);
        let (held, waits) = (ticket("a", LONG), ticket("a", LONG));
        join(&holder, &held).await;
        join(&waiter, &waits).await;
        // With named locks only streams are aggregations.
        server
            .fail_commands(doc! { "failCommands": ["aggregate"], "errorCode": 13 }, 1000)
            .unwrap();
        let watch = waiter.watch(&waits, TicketState::Waiting);
        let story = async {
            let before = count(&server, "findAndModify");
            until("it polls", async || count(&server, "findAndModify") >= before + 3).await;
            holder.leave(&held, LeaveMode::Now).await.unwrap();
            std::future::pending::<()>().await;
        };
        let woken = soon("it is served", async {
            tokio::select! { woken = watch => woken.unwrap(), () = story => unreachable!("it goes on") }
        });
        assert!(matches!(woken.await, Wake::Served(_)));
    });
}
