//! The stage of these tests: the requests of a test to its server.

use std::time::Duration;

use tenure_conformance::fault::stage;
pub(super) use tenure_conformance::fault::stage::{soon, until};
use tenure_core::{Engine as _, Key, Locks, Place, Share, Ticket, WaitMode};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::{Document, MONGOD, Server, doc};
use tenure_servers::{Tool, have};

/// A life without a heartbeat in the time of a test: what a ticket notices comes from elsewhere.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Runs a test that needs a MongoDB, if there is one here.
pub(super) fn play(story: impl AsyncFnOnce()) {
    play_with(&[], story);
}

/// The same for a test that needs these tools as well.
pub(super) fn play_with(tools: &[Tool], story: impl AsyncFnOnce()) {
    if !have(&[MONGOD]) || !have(tools) {
        return;
    }
    stage::play(story());
}

/// Opens the locks at this URL.
pub(super) async fn connect(url: impl AsRef<str>) -> Locks {
    tenure_mongodb::connect(url).await.expect("the server can be reached")
}

/// Opens the engine itself, on the runtime of the test.
pub(super) async fn store(url: &str) -> MongoStore {
    MongoStore::open(url).await.expect("the server can be reached")
}

/// Returns a ticket for the whole of this key.
pub(super) fn ticket(key: &str, ttl: Duration) -> Ticket {
    Ticket { ttl, ..Ticket::new(Key::new(key).unwrap(), Share::WHOLE) }
}

/// Puts a ticket into its line.
pub(super) async fn join(store: &MongoStore, ticket: &Ticket) -> Place {
    store.join(ticket, WaitMode::Wait).await.expect("it is answered").expect("it waits")
}

/// Returns the id of a line's record.
pub(super) fn record(key: &str) -> String {
    Key::new(key).unwrap().canonical("tenure")
}

/// Runs a command in the database of the locks.
pub(super) fn ask(server: &Server, command: Document) -> Document {
    server.command("tenure", command).unwrap()
}

/// Returns the record of a line, if there is one.
pub(super) fn look_at(server: &Server, key: &str) -> Option<Document> {
    let found = ask(server, doc! { "find": "locks", "filter": { "_id": record(key) } });
    let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.first().map(|record| record.as_document().unwrap().clone())
}

/// Returns how many commands of this name the server received.
pub(super) fn count(server: &Server, command: &str) -> i64 {
    let status = server.command("admin", doc! { "serverStatus": 1 }).unwrap();
    let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
    let command = commands.get_document(command).unwrap();
    command.get_i64("total").or_else(|_| command.get_i32("total").map(i64::from)).unwrap()
}

/// Returns the pipelines of the open change streams of a server without logins.
pub(super) fn streams(server: &Server) -> Vec<String> {
    let stages = [
        doc! { "$currentOp": { "allUsers": true, "idleCursors": true } },
        doc! { "$match": { "cursor.originatingCommand": { "$exists": true } } },
    ];
    let ask = doc! { "aggregate": 1, "pipeline": stages.to_vec(), "cursor": { "batchSize": 1000 } };
    let found = server.command("admin", ask).unwrap();
    let cursors = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let text = cursors.iter().map(|one| {
        let cursor = one.as_document().unwrap().get_document("cursor").unwrap();
        cursor.get_document("originatingCommand").unwrap().to_string()
    });
    text.filter(|pipeline| pipeline.contains("$changeStream")).collect()
}
