//! A lock that goes from one of a client's tickets to the next: the answer to the release reports
//! the hand-over, and nothing is published. A lost answer leaves no ticket waiting.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tenure_conformance::fault::{Act, Match};
use tenure_core::{Engine as _, LeaveMode, Locks, Share, Ticket, TicketState, WaitMode, Wake};
use tenure_redis::RedisStore;
use tenure_servers::redis::{Cluster, Masters, Server};
use tokio::task::JoinSet;

use super::stage::{LONG, calls, connect, play, proxy_to, soon, store, ticket, until, until_line};

const TASKS: usize = 8;
const TURNS: u64 = 40;
/// More tickets than Lua can return one by one.
const READERS: usize = 9000;

/// Runs all tasks, which take their turns at one key.
async fn take_turns(locks: &Locks) {
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let mutex = locks.mutex("a").ttl(LONG);
        tasks.spawn(async move {
            for _ in 0..TURNS {
                let guard = mutex.lock().await.unwrap();
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            }
        });
    }
    soon("all have had their turns", tasks.join_all()).await;
}

fn published(servers: &[Server]) -> u64 {
    let of = |server: &Server| calls(server, "publish") + calls(server, "spublish");
    servers.iter().map(of).sum()
}

#[test]
fn nothing_is_published_for_tickets_of_the_client_that_releases() {
    play(async || {
        let server = Server::start().unwrap();
        take_turns(&connect(server.url()).await).await;
        assert_eq!(published(&[server]), 0);
    });
}

#[test]
fn nor_in_a_cluster() {
    play(async || {
        let cluster = Cluster::start().unwrap();
        take_turns(&connect(cluster.url()).await).await;
        assert_eq!(published(cluster.nodes()), 0);
    });
}

#[test]
fn nor_by_the_servers_of_a_redlock() {
    play(async || {
        let masters = Masters::start(3).unwrap();
        take_turns(&connect(format!("{}?after_restart=trust", masters.url())).await).await;
        assert_eq!(published(masters.servers()), 0);
    });
}

#[test]
fn another_client_is_told_by_one_message() {
    play(async || {
        let server = Server::start().unwrap();
        let (one, other) = (store(&server.url()).await, store(&server.url()).await);
        let tickets: Vec<Ticket> = (0..6).map(|_| ticket("a", LONG)).collect();
        let client = |at: usize| if at.is_multiple_of(2) { &one } else { &other };
        for (at, ticket) in tickets.iter().enumerate() {
            client(at).join(ticket, WaitMode::Wait).await.unwrap().unwrap();
        }
        for (at, ticket) in tickets.iter().enumerate() {
            let place = client(at).renew(ticket).await.unwrap().unwrap();
            assert_eq!(place.state, TicketState::Holding);
            if at > 0 {
                let told = client(at).watch(ticket, TicketState::Waiting);
                assert_eq!(soon("it is told", told).await.unwrap(), Wake::Served(place.number));
            }
            client(at).leave(ticket, LeaveMode::Now).await.unwrap();
        }
        assert_eq!(calls(&server, "publish"), 5);
    });
}

#[test]
fn many_readers_of_one_client_are_told_by_one_answer() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let writer = ticket("a", LONG);
        store.join(&writer, WaitMode::Wait).await.unwrap().unwrap();
        let reader = || Ticket { share: Share::READER, ..ticket("a", LONG) };
        let readers: Vec<Ticket> = (0..READERS).map(|_| reader()).collect();
        for some in readers.chunks(100) {
            join_all(some.iter().map(|reader| store.join(reader, WaitMode::Wait))).await;
        }
        store.leave(&writer, LeaveMode::Now).await.unwrap();
        let told = readers.iter().map(|reader| store.watch(reader, TicketState::Waiting));
        for wake in soon("all are told", join_all(told)).await {
            assert!(matches!(wake.unwrap(), Wake::Served(_)));
        }
        assert_eq!(calls(&server, "publish"), 0);
    });
}

/// Returns a client and an onlooker. The client's own connection can be cut while its connection
/// for pushes stays.
async fn at_a_wire() -> (Server, tenure_conformance::fault::Proxy, Locks, RedisStore) {
    let server = Server::start().unwrap();
    let (proxy, onlooker) = (proxy_to(&server), store(&server.url()).await);
    let locks = connect(format!("redis://{}", proxy.address())).await;
    until("this runtime has a connection of its own", async || {
        locks.mutex("b").lock().await.unwrap().release().await.unwrap();
        super::stage::connections(&server) >= 3
    })
    .await;
    (server, proxy, locks, onlooker)
}

#[test]
fn a_release_whose_answer_was_lost_serves_the_next_one_all_the_same() {
    play(async || {
        let (_server, proxy, locks, onlooker) = at_a_wire().await;
        for act in [Act::CutBefore, Act::CutAfter] {
            let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
            let waiter = tokio::spawn(locks.mutex("a").ttl(LONG).lock());
            until_line(&locks, "a", 2).await;
            proxy.on(Match::request_containing("EVALSHA"), act);
            // The client does not know whether its first leave was carried out.
            guard.release().await.unwrap();
            // No heartbeat is due in this time: the answer to the second leave reports the
            // hand-over.
            let next = soon("the next one is served", waiter).await.unwrap().unwrap();
            assert_eq!(onlooker.line(next.key()).await.unwrap().len(), 1);
            next.release().await.unwrap();
        }
    });
}

#[test]
fn a_release_that_is_given_up_serves_the_next_one_all_the_same() {
    play(async || {
        let (_server, _proxy, locks, _onlooker) = at_a_wire().await;
        for round in 0..20 {
            let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
            let waiter = tokio::spawn(locks.mutex("a").ttl(LONG).lock());
            until_line(&locks, "a", 2).await;
            let mut release = Box::pin(guard.release());
            // The server may have answered already: then this is a release like any other.
            if (&mut release).now_or_never().is_none() {
                tokio::time::sleep(Duration::from_micros(50 * round)).await;
            }
            drop(release);
            let next = soon("the next one is served", waiter).await.unwrap().unwrap();
            next.release().await.unwrap();
        }
    });
}

/// A number as the scripts pack it.
#[allow(clippy::cast_precision_loss, reason = "so small a number is exact")]
fn as_packed(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

#[test]
fn a_letter_of_an_earlier_number_serves_nobody() {
    play(async || {
        let server = Server::start().unwrap();
        let (one, other) = (store(&server.url()).await, store(&server.url()).await);
        let (holder, waiter) = (ticket("a", LONG), ticket("a", LONG));
        other.join(&holder, WaitMode::Wait).await.unwrap().unwrap();
        let inboxes = server.command(&["PUBSUB", "CHANNELS", "tenure:inbox:*"]).unwrap();
        let place = one.join(&waiter, WaitMode::Wait).await.unwrap().unwrap();
        // A late push: the ticket was in the line before, was served and was taken out.
        let mut letter = waiter.id.to_u128().to_be_bytes().to_vec();
        letter.push(b'S');
        letter.extend(as_packed(place.number - 1));
        for inbox in inboxes.list().unwrap() {
            let inbox = inbox.text().unwrap();
            server.command(&[b"PUBLISH".as_slice(), inbox.as_bytes(), &letter]).unwrap();
        }
        let told = soon("it looks", one.watch(&waiter, TicketState::Waiting)).await.unwrap();
        assert_eq!(told, Wake::Look);
        let seen = one.renew(&waiter).await.unwrap().unwrap();
        assert_eq!((seen.number, seen.state), (place.number, TicketState::Waiting));
        other.leave(&holder, LeaveMode::Now).await.unwrap();
        let told = soon("it is told", one.watch(&waiter, TicketState::Waiting)).await.unwrap();
        assert_eq!(told, Wake::Served(place.number));
    });
}
