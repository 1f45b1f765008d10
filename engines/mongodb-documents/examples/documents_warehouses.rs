//! Two warehouses pick the parts of one order at the same time: each locks a line, and only the
//! accountant locks the whole.
//!
//! Run it as `cargo run --package tenure-mongodb-documents --example documents_warehouses -- URL`,
//! with a URL such as `mongodb://127.0.0.1/?replicaSet=rs0`.

#[path = "documents/drawer.rs"]
#[allow(dead_code, reason = "each story needs some of it")]
mod drawer;

use std::error::Error;

use drawer::Drawer;
use mongodb::bson::doc;
use serde::{Deserialize, Serialize};
use tenure_mongodb_documents::{DocumentLocks, Documents, Path};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    #[serde(rename = "_id")]
    id: i32,
    state: String,
    lines: Vec<Line>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    sku: i32,
    quantity: i64,
    #[serde(default)]
    picked_by: Vec<String>,
}

/// Picks each line of the order that is not locked at the moment and was not picked yet.
async fn pick(orders: DocumentLocks<Order>, warehouse: &str, skus: i32) -> tenure_core::Result<()> {
    for sku in 0..skus {
        let line = orders.part::<Line>(42, Path::field("lines").element("sku", sku));
        // Another warehouse holds this line: go on with the next one.
        let Some(line) = line.try_lock().await? else { continue };
        if line.document().picked_by.is_empty() {
            println!("{warehouse}: I pick {} of {sku}", line.document().quantity);
            line.release_with(doc! { "$set": { "picked_by": [warehouse] } }).await?;
        }
    }
    Ok(())
}

/// Returns which warehouses picked each line.
pub(crate) async fn play(url: &str) -> Result<Vec<Vec<String>>, Box<dyn Error>> {
    const SKUS: i32 = 12;
    let drawer = Drawer::at(url, "parcels").await?;
    let line = |sku| Line { sku, quantity: i64::from(sku) + 1, picked_by: Vec::new() };
    let order = Order { id: 42, state: "paid".to_owned(), lines: (0..SKUS).map(line).collect() };
    drawer.insert(&order).await?;
    // A lock on the whole order waits until no part of it is locked.
    let open = async || drawer.open(Documents::new().hierarchical()).await;
    let (north, south, office) = (open().await?, open().await?, open().await?);
    let all = async |orders: DocumentLocks<Order>, name: &str| {
        // A line that the other warehouse held may have been released without being picked.
        for _ in 0..2 {
            pick(orders.clone(), name, SKUS).await?;
        }
        Ok::<(), tenure_core::Error>(())
    };
    tokio::try_join!(all(north, "north"), all(south, "south"))?;
    let order = office.document(42).lock().await?;
    order.update(doc! { "$set": { "state": "sent" } }).await?;
    order.release().await?;
    let order: Order = drawer.find(42).await?;
    println!("the order is {}", order.state);
    Ok(order.lines.into_iter().map(|line| line.picked_by).collect())
}

#[allow(dead_code, reason = "a test plays the story without it")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("say where the MongoDB is")?;
    for (sku, picked_by) in play(&url).await?.into_iter().enumerate() {
        println!("{sku} was picked by {}", picked_by.join(" and "));
    }
    Ok(())
}
