//! The snippets of the page on documents: they are the same here as on the page, compile, and do
//! what the page describes.
#![cfg(unix)]

use std::time::Duration;

use mongodb::bson::doc;
use mongodb::{Client, Collection};
use serde::{Deserialize, Serialize};
use tenure_core::{ErrorKind, Reason, Result};
use tenure_mongodb_documents::{DocumentLocks, Documents, MemoryDocuments, Path};
use tenure_servers::have;
use tenure_servers::mongodb::{MONGOD, Server};

const PAGE: &str = include_str!("../README.md");
const HERE: &str = include_str!("documents_page.rs");

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    #[serde(rename = "_id")]
    id: i32,
    state: String,
    total: i64,
    lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Line {
    sku: i32,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Part {
    no: i32,
    at: String,
}

fn order() -> Order {
    let parts = vec![Part { no: 7, at: "shelf".to_owned() }];
    let lines = vec![Line { sku: 42, parts: parts.clone() }, Line { sku: 43, parts }];
    Order { id: 42, state: "new".to_owned(), total: 10, lines }
}

#[allow(clippy::needless_pass_by_value, reason = "the page has values")]
mod snippets {
    use super::*;

    #[rustfmt::skip]
    pub(super) async fn first(collection: Collection<Order>) -> Result<()> {
        let orders = Documents::new().over(&collection).await?;           // a Collection<Order>
        let order = orders.document(42).lock().await?;                    // waits in order; reads the order
        println!("{} is to be paid", order.document().total);
        order.update(doc! { "$set": { "state": "paid" } }).await?;        // refused if the lock is lost
        order.release().await?;                                           // or drop it
        orders.close().await;                                             // before the program ends
        Ok(())
    }

    #[rustfmt::skip]
    pub(super) async fn errors(orders: &DocumentLocks<Order>) -> Result<()> {
        match orders.document(42).lock().await {
            Ok(order) => order.release_with(doc! { "$set": { "state": "paid" } }).await?,
            Err(error) if error.reason() == Some(Reason::DocumentNotFound) => println!("it was deleted"),
            Err(error) if error.kind() == ErrorKind::Unavailable => println!("try again later: {error}"),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    #[rustfmt::skip]
    pub(super) async fn several(orders: &DocumentLocks<Order>) -> Result<()> {
        let paths = [Path::field("lines").element("sku", 42), Path::field("lines").element("sku", 43)];
        for line in orders.parts::<Line>(42, paths).lock().await? {       // in the order of the paths
            line.release_with(doc! { "$set": { "parts": [] } }).await?;   // what is around them goes with the last
        }
        Ok(())
    }

    #[allow(unused_variables, reason = "the page shows two ways to say it")]
    #[rustfmt::skip]
    pub(super) async fn parts(orders: &DocumentLocks<Order>) -> Result<()> {
        let path = Path::field("lines").element("sku", 42).then("parts").element("no", 7);
        let path: Path = "lines.$[sku = 42].parts.$[no = 7]".parse()?;    // the same
        let part = orders.part::<Part>(42, path).lock().await?;
        part.update(doc! { "$set": { "at": "truck" } }).await?;           // names of the part, not of the order
        Ok(())
    }

    #[rustfmt::skip]
    pub(super) async fn next(mails: &DocumentLocks<Order>) -> Result<()> {
        let queue = mails.queue(doc! { "state": "new" }).order(doc! { "_id": 1 });
        let mail = queue.next().await?;                                   // any one that is free; waits for one without polling
        mail.done(doc! { "$set": { "state": "sent" } }).await?;           // or mail.delete(), or mail.retry_later(time)
        Ok(())
    }

    #[rustfmt::skip]
    pub(super) fn memory(order: Order) -> Result<DocumentLocks<Order>> {
        let collection = MemoryDocuments::new();
        collection.insert(&order)?;
        let orders = Documents::new().in_memory::<Order>(&collection);    // the same DocumentLocks
        Ok(orders)
    }
}

#[test]
fn the_snippets_of_the_page_stand_here() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let here = words(HERE);
    let snippets: Vec<&str> = PAGE.split("```rust\n").skip(1).collect();
    assert_eq!(snippets.len(), 6, "each has a test");
    for snippet in snippets {
        let code = snippet.split("```").next().unwrap();
        let code: Vec<&str> = code.lines().filter(|line| !line.starts_with("use ")).collect();
        assert!(here.contains(&words(&code.join("\n"))), "{}", code.join("\n"));
    }
}

#[tokio::test]
async fn they_do_what_the_page_says_on_a_server() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().unwrap();
    let client = Client::with_uri_str(server.url()).await.unwrap();
    let collection: Collection<Order> = client.database("shop").collection("orders");
    collection.insert_one(order()).await.unwrap();
    let orders = Documents::new().over(&collection).await.unwrap();
    let seen = async || orders.document(42).lock().await.unwrap().document().clone();
    snippets::first(collection).await.unwrap();
    assert_eq!(seen().await, Order { state: "paid".to_owned(), ..order() });
    snippets::parts(&orders).await.unwrap();
    assert_eq!(seen().await.lines[0].parts[0].at, "truck");
    orders.document(42).lock().await.unwrap().replace(order()).await.unwrap();
    snippets::next(&orders).await.unwrap();
    assert_eq!(seen().await.state, "sent");
    snippets::errors(&orders).await.unwrap();
    snippets::several(&orders).await.unwrap();
    assert_eq!(seen().await.state, "paid");
    assert!(seen().await.lines.iter().all(|line| line.parts.is_empty()));
    orders.document(42).lock().await.unwrap().delete().await.unwrap();
    snippets::errors(&orders).await.unwrap();
}

#[tokio::test]
async fn they_do_what_the_page_says_in_memory() {
    let orders = snippets::memory(order()).unwrap();
    snippets::errors(&orders).await.unwrap();
    let within = orders.document(42).try_lock_for(Duration::from_secs(9)).await.unwrap().unwrap();
    assert_eq!(*within.document(), Order { state: "paid".to_owned(), ..order() });
}
