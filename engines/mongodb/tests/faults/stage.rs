//! The stage of these stories: what a test asks of a server.

use std::time::Duration;

use tenure_conformance::fault::stage;
pub(super) use tenure_conformance::fault::stage::{soon, until};
use tenure_core::{Engine as _, Key, Locks, Place, Share, Ticket, WaitMode};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::{Document, MONGOD, Server, doc};
use tenure_servers::{Tool, have};

/// A life so long that no heartbeat falls into its story: what happens was not found out by one.
pub(super) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Plays a story that needs a MongoDB, if there is one here.
pub(super) fn play(story: impl AsyncFnOnce()) {
    play_with(&[], story);
}

/// The same for a story that needs these as well.
pub(super) fn play_with(tools: &[Tool], story: impl AsyncFnOnce()) {
    if !have(&[MONGOD]) || !have(tools) {
        return;
    }
    stage::play(story());
}

/// The locks at this URL.
pub(super) async fn connect(url: impl AsRef<str>) -> Locks {
    tenure_mongodb::connect(url).await.expect("the server can be reached")
}

/// The engine itself, on the runtime of the story.
pub(super) async fn store(url: &str) -> MongoStore {
    MongoStore::open(url).await.expect("the server can be reached")
}

/// A ticket for the whole of this key.
pub(super) fn ticket(key: &str, ttl: Duration) -> Ticket {
    Ticket { ttl, ..Ticket::new(Key::new(key).unwrap(), Share::WHOLE) }
}

/// Puts a ticket into its line.
pub(super) async fn join(store: &MongoStore, ticket: &Ticket) -> Place {
    store.join(ticket, WaitMode::Wait).await.expect("it is answered").expect("it waits")
}

/// The id of a line's record.
pub(super) fn record(key: &str) -> String {
    Key::new(key).unwrap().canonical("tenure")
}

/// Runs a command in the database of the locks.
pub(super) fn ask(server: &Server, command: Document) -> Document {
    server.command("tenure", command).unwrap()
}

/// The record of a line, if there is one.
pub(super) fn look_at(server: &Server, key: &str) -> Option<Document> {
    let found = ask(server, doc! { "find": "locks", "filter": { "_id": record(key) } });
    let batch = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.first().map(|record| record.as_document().unwrap().clone())
}

/// How many commands of this name the server was asked.
pub(super) fn count(server: &Server, command: &str) -> i64 {
    let status = server.command("admin", doc! { "serverStatus": 1 }).unwrap();
    let commands = status.get_document("metrics").unwrap().get_document("commands").unwrap();
    let command = commands.get_document(command).unwrap();
    command.get_i64("total").or_else(|_| command.get_i32("total").map(i64::from)).unwrap()
}

/// The change streams that are open on a server that lets everyone in: the pipeline of each.
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
