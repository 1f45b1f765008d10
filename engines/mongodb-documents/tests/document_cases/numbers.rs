//! Numbers: what becomes of them when a document is replaced while clients come and go.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use mongodb::bson::Document;
use tenure_servers::mongodb::{Server, doc};

use super::shop::patient;
use super::stage::{ask, play};
use super::storm::{CLIENTS, Stranger, back, storm, take_turns};

/// Maximum step back of a document's number: the time limit of the server for one command, in
/// microseconds.
const COMMAND_MAX_US: i64 = 4_375_000;

/// Maximum equal numbers by chance in a storm of less than 1,000 replacements. Fewer than one run
/// of 40,000 has one more.
const EQUAL_MAX: usize = 3;

fn replaces_the_document(times: usize, pause: Duration) -> Stranger {
    let replace = doc! { "q": { "_id": 1 }, "u": { "state": "new" }, "upsert": true };
    Stranger { change: doc! { "update": "orders", "updates": [replace] }, times, pause }
}

/// Runs a stranger beside clients that take turns at the document 1.
async fn storm_of_documents(server: &Server, stranger: Stranger) -> Vec<i64> {
    let locked = Arc::<AtomicUsize>::default();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let url = format!("{}&collection=orders", server.url());
        let orders = patient().connect::<Document>(url).await.unwrap();
        clients.push(take_turns(&locked, move || {
            let document = orders.document(1);
            async move {
                let Ok(guard) = document.lock().await else { return false };
                let _ = guard.release().await; // the document may be replaced
                true
            }
        }));
    }
    storm(server, stranger, locked, &clients, "tenure.orders").await
}

async fn numbers_of_a_document_differ_but_by_chance(times: usize, pause: Duration) {
    let server = Server::start().unwrap();
    ask(&server, doc! { "insert": "orders", "documents": [{ "_id": 1, "state": "new" }] });
    let numbers = storm_of_documents(&server, replaces_the_document(times, pause)).await;
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

/// The clock in milliseconds leaves the last three digits open. If all clients left them at zero,
/// two would give the same number within one millisecond.
#[test]
fn the_first_numbers_of_documents_differ_in_what_the_clock_leaves_open() {
    play(async || {
        let server = Server::start().unwrap();
        let all: Vec<Document> = (0..8).map(|id| doc! { "_id": id }).collect();
        ask(&server, doc! { "insert": "orders", "documents": all });
        let url = format!("{}&collection=orders", server.url());
        let orders = patient().connect::<Document>(url).await.unwrap();
        let mut digits = HashSet::new();
        for id in 0..8 {
            let guard = orders.document(id).lock().await.unwrap();
            digits.insert(guard.token().get() % 1000);
            guard.release().await.unwrap();
        }
        assert!(digits.len() > 1, "{digits:?}");
        orders.close().await;
    });
}
