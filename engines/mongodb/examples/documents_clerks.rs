//! Two clerks edit one order: each sees what the other one left, and nobody's change is lost.
//!
//! Run it as `cargo run --package tenure-mongodb --example documents_clerks -- 'mongodb://127.0.0.1/?replicaSet=rs0'`.

use std::error::Error;

use mongodb::bson::doc;
use mongodb::{Client, Collection};
use serde::{Deserialize, Serialize};
use tenure_mongodb::documents::{DocumentLocks, Documents};

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
    let remark = format!("{clerk} added {price}");
    order.release_with(doc! { "$set": { "total": total }, "$push": { "remarks": remark } }).await
}

/// Answers the order that both have left.
pub(crate) async fn play(url: &str) -> Result<(i64, Vec<String>), Box<dyn Error>> {
    let database = Client::with_uri_str(url).await?.database("shop");
    let collection: Collection<Order> = database.collection("orders");
    collection.insert_one(Order { id: 42, total: 0, remarks: Vec::new() }).await?;
    let (first, second) =
        (Documents::new().over(&collection).await?, Documents::new().over(&collection).await?);
    let clerk = async |orders: DocumentLocks<Order>, name: &str| {
        for price in 1..=10 {
            add(orders.clone(), name, price).await?;
        }
        Ok::<(), tenure_core::Error>(())
    };
    tokio::try_join!(clerk(first, "ada"), clerk(second, "ben"))?;
    let order = collection.find_one(doc! { "_id": 42 }).await?.ok_or("it is gone")?;
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
