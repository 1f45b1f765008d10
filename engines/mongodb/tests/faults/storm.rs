//! A storm: clients take turns at one lock while a stranger changes its line. The oplog is the
//! judge: it has every number that was given, in the order of the writes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mongodb::bson::{Bson, Document};
use tenure_servers::mongodb::{Client, Server, doc};
use tokio::task::AbortHandle;

use super::stage::soon;

/// Clients of a storm.
pub(super) const CLIENTS: usize = 12;

/// The change of a stranger in a storm, its repetitions, and the pause between them.
pub(super) struct Stranger {
    pub(super) change: Document,
    pub(super) times: usize,
    pub(super) pause: Duration,
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

/// Takes and releases the lock until the task is aborted.
pub(super) fn take_turns<F: Future<Output = bool> + Send>(
    locked: &Arc<AtomicUsize>,
    lock: impl Fn() -> F + Send + 'static,
) -> AbortHandle {
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

/// Runs a stranger beside clients that count their locks. Returns the numbers that were given in
/// the collection, in their order.
pub(super) async fn storm(
    server: &Server,
    stranger: Stranger,
    locked: Arc<AtomicUsize>,
    clients: &[AbortHandle],
    collection: &str,
) -> Vec<i64> {
    let mut client = server.client().unwrap();
    let ends = tokio::task::spawn_blocking(move || stranger.run(&mut client, &locked));
    soon("the stranger has done all", ends).await.unwrap();
    clients.iter().for_each(AbortHandle::abort);
    numbers(server, collection)
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
pub(super) fn back(numbers: &[i64]) -> Vec<(i64, i64)> {
    let pairs = numbers.windows(2).map(|pair| (pair[0], pair[1]));
    pairs.filter(|(before, after)| after <= before).collect()
}
