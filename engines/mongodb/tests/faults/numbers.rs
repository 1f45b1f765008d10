//! Numbers: what becomes of them when a record is deleted while clients come and go.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use mongodb::bson::Document;
use tenure_core::{Engine as _, LeaveMode, LeaveOutcome, TicketState};
use tenure_servers::mongodb::{Server, doc};

use super::stage::{LONG, ask, connect, count, join, look_at, play, record, store, ticket, until};
use super::storm::{CLIENTS, Stranger, back, storm, take_turns};

fn deletes_the_record(times: usize, pause: Duration) -> Stranger {
    let delete = doc! { "q": { "_id": record("a") }, "limit": 1 };
    Stranger { change: doc! { "delete": "locks", "deletes": [delete] }, times, pause }
}

/// Runs a stranger beside clients that take turns at the lock `a`.
async fn storm_of_locks(server: &Server, stranger: Stranger) -> Vec<i64> {
    let locked = Arc::<AtomicUsize>::default();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mutex = connect(server.url()).await.mutex("a");
        clients.push(take_turns(&locked, move || {
            let mutex = mutex.clone();
            async move {
                let Ok(guard) = mutex.lock().await else { return false };
                let _ = guard.release().await; // the record of the lock may be deleted
                true
            }
        }));
    }
    storm(server, stranger, locked, &clients, "tenure.locks").await
}

async fn numbers_of_a_record_only_grow(times: usize, pause: Duration) {
    let server = Server::start().unwrap();
    let numbers = storm_of_locks(&server, deletes_the_record(times, pause)).await;
    assert!(numbers.len() >= times, "{} numbers for {times} changes", numbers.len());
    println!("{} numbers", numbers.len());
    assert_eq!(back(&numbers), []);
}

#[test]
fn numbers_grow_while_a_stranger_deletes_the_record() {
    play(async || numbers_of_a_record_only_grow(150, Duration::ZERO).await);
}

#[test]
#[ignore = "half a minute or more: up to 55 deletions a second"]
fn numbers_grow_while_a_stranger_deletes_the_record_for_half_a_minute() {
    play(async || numbers_of_a_record_only_grow(1650, Duration::from_millis(18)).await);
}

/// A client may die between the two commands with which it joins a fresh record.
#[test]
fn a_fresh_record_of_another_client_gets_its_first_number_from_the_next() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        for (key, tickets) in [("a", 1), ("b", 3)] {
            let fresh = doc! {
                "_id": record(key), "key": key, "made": "by another", "of": 0_i64, "at": 0_i64, "step": 1_i64,
                "held": [], "waiting": [], "notices": "",
            };
            ask(&server, doc! { "insert": "locks", "documents": [fresh] });
            let now = u64::try_from(clock(&server)).unwrap();
            let tickets: Vec<_> = (0..tickets).map(|_| ticket(key, LONG)).collect();
            let joins = tickets.iter().map(|ticket| join(&store, ticket));
            let places = futures_util::future::join_all(joins).await;
            assert!(places.iter().all(|place| place.number >= now * 1000), "{places:?}");
            assert!(!look_at(&server, key).unwrap().contains_key("made"), "it is fresh no more");
        }
    });
}

/// A stranger may write `made` beside a ticket that holds. Only a join is repeated because of it.
#[test]
fn a_name_of_a_fresh_record_beside_a_held_ticket_keeps_no_renewal_and_no_leave() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let held = ticket("a", LONG);
        join(&store, &held).await;
        set(&server, doc! { "$set": { "made": "by a stranger" } });
        let before = count(&server, "findAndModify");
        let place = store.renew(&held).await.expect("it is answered").expect("it stands there");
        assert_eq!(place.state, TicketState::Holding);
        set(&server, doc! { "$set": { "made": "by a stranger" } });
        let left = store.leave(&held, LeaveMode::Now).await.expect("it is answered");
        assert_eq!(left, LeaveOutcome::Holding);
        assert_eq!(count(&server, "findAndModify") - before, 2, "each is one command");
    });
}

/// A stranger removes the last number while a ticket holds, so that a join is repeated. The leave
/// in the same command was made by then, and its answer is kept.
#[test]
fn a_leave_beside_a_join_into_a_fresh_record_is_answered_by_what_it_did() {
    // One thread: both wishes wait before the lane sends its first command.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if !tenure_servers::have(&[tenure_servers::mongodb::MONGOD]) {
        return;
    }
    runtime.block_on(async {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let (held, next) = (ticket("a", LONG), ticket("a", LONG));
        let first = join(&store, &held).await;
        set(&server, doc! { "$unset": { "last": "" } });
        let (left, place) = tokio::join!(store.leave(&held, LeaveMode::Now), join(&store, &next));
        assert_eq!(left.expect("it is answered"), LeaveOutcome::Holding);
        assert_eq!(place.state, TicketState::Holding);
        assert!(place.number > first.number, "{place:?} after {first:?}");
    });
}

/// Changes the record of the line by hand.
fn set(server: &Server, change: Document) {
    let update = doc! { "q": { "_id": record("a") }, "u": change };
    ask(server, doc! { "update": "locks", "updates": [update] });
}

/// Returns the server's clock in milliseconds.
fn clock(server: &Server) -> i64 {
    ask(server, doc! { "hello": 1 }).get_datetime("localTime").unwrap().timestamp_millis()
}

/// Returns whether a command waits for others that are writing to the same record.
fn waits(server: &Server) -> bool {
    let is_it = doc! { "command.findAndModify": "locks", "writeConflicts": { "$gt": 0 } };
    let all = doc! { "$currentOp": { "allUsers": true } };
    let ask = doc! { "aggregate": 1, "pipeline": [all, { "$match": is_it }], "cursor": {} };
    let answer = server.command("admin", ask).unwrap();
    !answer.get_document("cursor").unwrap().get_array("firstBatch").unwrap().is_empty()
}

/// Until the record is deleted other tickets may have had numbers as great as the clock. A command
/// that began before that, and had to wait, has an older time.
#[test]
fn a_command_that_waited_for_a_deletion_gives_a_number_above_those_before_it() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&format!("{}&timeout=60s", server.url())).await;
        let (first, next) = (ticket("a", LONG), ticket("a", LONG));
        join(&store, &first).await;
        store.leave(&first, tenure_core::LeaveMode::Now).await.unwrap();
        let client = mongodb::Client::with_uri_str(server.url()).await.unwrap();
        let locks = client.database("tenure").collection::<Document>("locks");
        let mut session = client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        let (it, touch) = (doc! { "_id": record("a") }, doc! { "$set": { "remark": 1 } });
        locks.update_one(it.clone(), touch).session(&mut session).await.unwrap();
        let deletion = async {
            until("the command waits", async || waits(&server)).await;
            let waited = clock(&server);
            until("the clock goes on", async || clock(&server) > waited).await;
            let deleted = clock(&server);
            locks.delete_one(it).session(&mut session).await.unwrap();
            session.commit_transaction().await.unwrap();
            deleted
        };
        let (place, deleted) = tokio::join!(join(&store, &next), deletion);
        let number = i64::try_from(place.number).unwrap();
        assert!(number >= deleted * 1000, "{number} was given after {deleted} ms");
        let record = look_at(&server, "a").unwrap();
        assert_eq!(record.get_i64("last").unwrap(), number);
    });
}
