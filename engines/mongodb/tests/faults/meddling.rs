//! Meddling: an operator deletes, replaces or changes a record by hand, or drops the collection.
//! The holder is notified.

use tenure_core::{Engine as _, TicketState, WaitMode, Wake};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::{Document, Server, doc};

use super::stage::{LONG, ask, count, look_at, play, record, soon, store, ticket, until};

/// Asserts that a listening holder is notified of a change of its record, and that its next renewal
/// is refused. The next ticket has a greater number.
async fn hears_of(meddle: impl AsyncFnOnce(&Server)) {
    let server = Server::start().unwrap();
    let (holder, other): (MongoStore, MongoStore) =
        (store(&server.url()).await, store(&server.url()).await);
    let held = ticket("a", LONG);
    let place = holder.join(&held, WaitMode::Wait).await.unwrap().unwrap();
    let watch = holder.watch(&held, TicketState::Holding);
    let meddling = async {
        let before = count(&server, "find");
        until("it looks", async || count(&server, "find") > before).await;
        meddle(&server).await;
        std::future::pending::<()>().await;
    };
    let woken = soon("the holder hears of it", async {
        tokio::select! { woken = watch => woken, () = meddling => unreachable!("it goes on") }
    });
    assert_eq!(woken.await.unwrap(), Wake::Look);
    assert_eq!(holder.renew(&held).await.unwrap(), None, "it is out");
    let next = other.join(&ticket("a", LONG), WaitMode::Wait).await.unwrap().unwrap();
    assert!(next.number > place.number && next.state == TicketState::Holding, "{next:?}");
}

fn update(change: Document) -> Document {
    doc! { "update": "locks", "updates": [{ "q": { "_id": record("a") }, "u": change }] }
}

#[test]
fn a_holder_hears_that_its_record_is_deleted() {
    play(async || {
        let delete =
            doc! { "delete": "locks", "deletes": [{ "q": { "_id": record("a") }, "limit": 1 }] };
        Box::pin(hears_of(async |server| drop(ask(server, delete)))).await;
    });
}

#[test]
fn a_holder_hears_that_its_record_is_emptied() {
    play(async || {
        let empty = update(doc! { "$set": { "held": [] } });
        Box::pin(hears_of(async |server| drop(ask(server, empty)))).await;
    });
}

#[test]
fn a_holder_hears_that_its_record_is_replaced() {
    play(async || {
        let other = update(doc! { "somebody": "else" });
        Box::pin(hears_of(async |server| drop(ask(server, other)))).await;
    });
}

#[test]
fn a_holder_hears_that_the_collection_is_dropped() {
    play(async || {
        Box::pin(hears_of(async |server| drop(ask(server, doc! { "drop": "locks" })))).await;
    });
}

#[test]
fn fields_of_others_are_left_alone() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let held = ticket("a", LONG);
        store.join(&held, WaitMode::Wait).await.unwrap();
        ask(&server, update(doc! { "$set": { "remark": "not ours" } }));
        store.renew(&held).await.unwrap().expect("it stands there");
        store.leave(&held, tenure_core::LeaveMode::Now).await.unwrap();
        assert_eq!(look_at(&server, "a").unwrap().get_str("remark").unwrap(), "not ours");
    });
}
