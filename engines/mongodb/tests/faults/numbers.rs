//! Numbers: what becomes of them when a record is deleted, or a document replaced, while clients
//! come and go. The oplog is the judge: it has every number that was given, in the order of the
//! writes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mongodb::bson::{Bson, Document};
use tenure_core::{Engine as _, LeaveMode, LeaveOutcome, TicketState};
use tenure_mongodb::documents::Documents;
use tenure_servers::mongodb::{Client, Server, doc};

use super::stage::{
    LONG, ask, connect, count, join, look_at, play, record, soon, store, ticket, until,
};

const CLIENTS: usize = 12;
/// Maximum step back of a document's number: the time limit of the server for one command, in
/// microseconds.
const COMMAND_MAX_US: i64 = 4_375_000;

/// Maximum equal numbers by chance in a storm of less than 1,000 replacements. Fewer than one run
/// of 40,000 has one more.
const EQUAL_MAX: usize = 3;

/// The change of a stranger in a storm, its repetitions, and the pause between them.
struct Stranger {
    change: Document,
    times: usize,
    pause: Duration,
}

impl Stranger {
    /// Repeats the change each time that a client got a lock, so that each number may be the first
    /// one after a change.
    fn run(&self, client: &mut Client, locked: &AtomicUsize) {
        for _ in 0..self.times {
            let before = locked.load(Ordering::Relaxed);
            client.command("tenure", self.change.clone()).unwrap();
            std::thread::sleep(self.pause);
            while locked.load(Ordering::Relaxed) == before {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }
}

fn deletes_the_record(times: usize, pause: Duration) -> Stranger {
    let delete = doc! { "q": { "_id": record("a") }, "limit": 1 };
    Stranger { change: doc! { "delete": "locks", "deletes": [delete] }, times, pause }
}

fn replaces_the_document(times: usize, pause: Duration) -> Stranger {
    let replace = doc! { "q": { "_id": 1 }, "u": { "state": "new" }, "upsert": true };
    Stranger { change: doc! { "update": "orders", "updates": [replace] }, times, pause }
}

/// Takes and releases the lock until the task is aborted.
fn take_turns<F: Future<Output = bool> + Send>(
    locked: &Arc<AtomicUsize>,
    lock: impl Fn() -> F + Send + 'static,
) -> tokio::task::AbortHandle {
    let locked = locked.clone();
    let turns = tokio::spawn(async move {
        loop {
            if lock().await {
                locked.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    turns.abort_handle()
}

/// Runs a stranger beside clients that take turns. Returns the numbers in their order.
async fn storm(server: &Server, stranger: Stranger, is_named: bool) -> Vec<i64> {
    let locked = Arc::<AtomicUsize>::default();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(if is_named {
            let mutex = connect(server.url()).await.mutex("a");
            take_turns(&locked, move || {
                let mutex = mutex.clone();
                async move {
                    let Ok(guard) = mutex.lock().await else { return false };
                    let _ = guard.release().await; // the record of the lock may be deleted
                    true
                }
            })
        } else {
            let url = format!("{}&collection=orders", server.url());
            let orders = Documents::new().connect::<Document>(url).await.unwrap();
            take_turns(&locked, move || {
                let document = orders.document(1);
                async move {
                    let Ok(guard) = document.lock().await else { return false };
                    let _ = guard.release().await; // the document may be replaced
                    true
                }
            })
        });
    }
    let mut client = server.client().unwrap();
    let ends = tokio::task::spawn_blocking(move || stranger.run(&mut client, &locked));
    soon("the stranger has done all", ends).await.unwrap();
    clients.iter().for_each(tokio::task::AbortHandle::abort);
    numbers(server, if is_named { "tenure.locks" } else { "tenure.orders" })
}

/// Returns the numbers of all tickets that ever stood in a collection, in the order in which they
/// joined.
fn numbers(server: &Server, collection: &str) -> Vec<i64> {
    let mut client = server.client().unwrap();
    let find = doc! { "find": "oplog.rs", "filter": { "ns": collection }, "batchSize": 1000 };
    let mut answer = client.command("local", find).unwrap();
    let (mut seen, mut numbers) = (HashSet::new(), Vec::new());
    loop {
        let cursor = answer.get_document("cursor").unwrap();
        let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch"));
        for write in batch.unwrap() {
            tickets(&write.as_document().unwrap()["o"], &mut |id, number| {
                if seen.insert(id.to_owned()) {
                    numbers.push(number);
                }
            });
        }
        let Ok(id @ 1..) = cursor.get_i64("id") else { return numbers };
        let more = doc! { "getMore": id, "collection": "oplog.rs", "batchSize": 1000 };
        answer = client.command("local", more).unwrap();
    }
}

/// Finds the tickets in a document, or in the difference of two.
fn tickets(of: &Bson, found: &mut impl FnMut(&str, i64)) {
    let inside: Vec<&Bson> = match of {
        Bson::Document(document) => {
            if let (Ok(id), Ok(number)) = (document.get_str("id"), document.get_i64("n")) {
                found(id, number);
            }
            document.values().collect()
        }
        Bson::Array(array) => array.iter().collect(),
        _ => return,
    };
    for one in inside {
        tickets(one, found);
    }
}

/// Returns the pairs of neighbours of which the second number is not greater.
fn back(numbers: &[i64]) -> Vec<(i64, i64)> {
    let pairs = numbers.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.filter(|(before, after)| after <= before).collect()
}

async fn numbers_of_a_record_only_grow(times: usize, pause: Duration) {
    let server = Server::start().unwrap();
    let numbers = storm(&server, deletes_the_record(times, pause), true).await;
    assert!(numbers.len() >= times, "{} numbers for {times} changes", numbers.len());
    println!("{} numbers", numbers.len());
    assert_eq!(back(&numbers), []);
}

async fn numbers_of_a_document_differ_but_by_chance(times: usize, pause: Duration) {
    let server = Server::start().unwrap();
    ask(&server, doc! { "insert": "orders", "documents": [{ "_id": 1, "state": "new" }] });
    let numbers = storm(&server, replaces_the_document(times, pause), false).await;
    assert!(numbers.len() >= times, "{} numbers for {times} changes", numbers.len());
    let different: HashSet<i64> = numbers.iter().copied().collect();
    let back = back(&numbers);
    println!("{} numbers, {} different, back: {back:?}", numbers.len(), different.len());
    // After a replacement two numbers of one millisecond are equal in one of 1,000 cases.
    let equal = numbers.len() - different.len();
    assert!(equal <= EQUAL_MAX + times / 1000, "{equal} numbers were given twice");
    assert!(back.iter().all(|(before, after)| before - after < COMMAND_MAX_US), "{back:?}");
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

#[test]
fn numbers_are_equal_by_chance_only_while_a_stranger_replaces_the_document() {
    play(async || numbers_of_a_document_differ_but_by_chance(150, Duration::ZERO).await);
}

#[test]
#[ignore = "half a minute or more: up to 55 replacements a second"]
fn numbers_are_equal_by_chance_only_while_a_stranger_replaces_the_document_for_half_a_minute() {
    play(async || {
        numbers_of_a_document_differ_but_by_chance(1650, Duration::from_millis(18)).await;
    });
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
                "held": [], "waiting": [], "bell": "",
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

/// The clock in milliseconds leaves the last three digits open. If all clients left them at zero,
/// two would give the same number within one millisecond.
#[test]
fn the_first_numbers_of_documents_differ_in_what_the_clock_leaves_open() {
    play(async || {
        let server = Server::start().unwrap();
        let all: Vec<Document> = (0..8).map(|id| doc! { "_id": id }).collect();
        ask(&server, doc! { "insert": "orders", "documents": all });
        let url = format!("{}&collection=orders", server.url());
        let orders = Documents::new().connect::<Document>(url).await.unwrap();
        let mut digits = HashSet::new();
        for id in 0..8 {
            let guard = orders.document(id).lock().await.unwrap();
            digits.insert(guard.token() % 1000);
            guard.release().await.unwrap();
        }
        assert!(digits.len() > 1, "{digits:?}");
        orders.close().await;
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
