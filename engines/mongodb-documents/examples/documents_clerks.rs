//! Two clerks edit one order: each sees the other's change, and no change is lost.
//!
//! Run it as `cargo run --package tenure-mongodb-documents --example documents_clerks -- URL`, with
//! a URL such as `mongodb://127.0.0.1/?replicaSet=rs0`. With `memory:` as the URL it runs in this
//! process's memory.

#[path = "documents/drawer.rs"]
#[allow(dead_code, reason = "each story needs some of it")]
mod drawer;

use std::error::Error;

use drawer::Drawer;
use mongodb::bson::doc;
use serde::{Deserialize, Serialize};
use tenure_mongodb_documents::{DocumentLocks, Documents};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    #[serde(rename = "_id")]
    id: i32,
    total: i64,
    remarks: Vec<String>,
}

/// A clerk adds an item to the order, by what the order says at that moment.
async fn add(orders: DocumentLocks<Order>, clerk: &str, price: i64) -> tenure_core::Result<()> {
    let order = orders.document(42).note(clerk).lock().await?;
    let total = order.document().total + price;
    println!("{clerk}: the order was {}, and is {total} now", order.document().total);
    let mut remarks = order.document().remarks.clone();
    remarks.push(format!("{clerk} added {price}"));
    order.release_with(doc! { "$set": { "total": total, "remarks": remarks } }).await
}

/// Returns the order after both have changed it.
pub(crate) async fn play(url: &str) -> Result<(i64, Vec<String>), Box<dyn Error>> {
    let drawer = Drawer::at(url, "orders").await?;
    drawer.insert(&Order { id: 42, total: 0, remarks: Vec::new() }).await?;
    let open = async || drawer.open(Documents::new()).await;
    let (first, second) = (open().await?, open().await?);
    let clerk = async |orders: DocumentLocks<Order>, name: &str| {
        for price in 1..=10 {
            add(orders.clone(), name, price).await?;
        }
        Ok::<(), tenure_core::Error>(())
    };
    tokio::try_join!(clerk(first, "ada"), clerk(second, "ben"))?;
    let order: Order = drawer.find(42).await?;
    Ok((order.total, order.remarks))
}

#[allow(dead_code, reason = "a test plays the story without it")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("say where the MongoDB is")?;
    let (total, remarks) = play(&url).await?;
    println!("{} items, {total} altogether", remarks.len());
    Ok(())
}
