//! An exclusive client: it locks a document for a limited time, extends the lock by hand while it
//! works, and releases it.
//!
//! Run it as `cargo run --package tenure-mongodb-documents --example documents_exclusive -- URL`,
//! with a URL such as `mongodb://127.0.0.1/?replicaSet=rs0`. With `memory:` as the URL it runs in
//! this process's memory.

#[path = "documents/drawer.rs"]
#[allow(dead_code, reason = "each story needs some of it")]
mod drawer;

use std::error::Error;
use std::time::Duration;

use drawer::Drawer;
use mongodb::bson::{Document, doc};
use tenure_mongodb_documents::Documents;

const TTL: Duration = Duration::from_secs(10);

/// Returns how often the meter was read.
pub(crate) async fn play(url: &str) -> Result<i64, Box<dyn Error>> {
    let drawer = Drawer::at(url, "meters").await?;
    // A missing meter is inserted when it is locked for the first time.
    let makes = Documents::new().or_insert(&doc! { "readings": 0_i64 })?;
    let meters = drawer.open::<Document>(makes).await?;
    // Manual renewal: a holder that stops extending loses the lock, even if its process lives.
    let lock = meters.document("meter 7").ttl(TTL).manual_renewal();
    let Some(mut meter) = lock.try_lock().await? else {
        return Err("somebody else reads it".into());
    };
    for _ in 0..3 {
        meter.update(doc! { "$inc": { "readings": 1_i64 } }).await?;
        meter.extend().await?;
        println!("it is mine for {:?} more", meter.remaining().unwrap_or_default());
    }
    assert!(lock.try_lock().await?.is_none(), "it is exclusive");
    let readings = meter.refresh().await?.get_i64("readings")?;
    meter.release().await?;
    let next = lock.try_lock().await?.ok_or("it was given back")?;
    next.release().await?;
    Ok(readings)
}

#[allow(dead_code, reason = "a test plays the story without it")]
#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).ok_or("say where the MongoDB is")?;
    println!("the meter was read {} times", play(&url).await?);
    Ok(())
}
