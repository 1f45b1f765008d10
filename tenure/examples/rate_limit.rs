//! A rate limit of five requests per second for each user, shared by all servers.

use std::time::Duration;

use tenure::{Locks, Result};

async fn allowed(locks: &Locks, user: &str) -> Result<bool> {
    let counter = locks.counter(format!("api/{user}")).window(Duration::from_secs(1)).limit(5);
    let count = counter.add(1).await?;
    if !count.allowed {
        println!("{user}: 429, try again in {:?}", count.resets_in.unwrap_or_default());
    }
    Ok(count.allowed)
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks = tenure::connect("memory:").await?;
    let mut served = 0;
    for _ in 0..7 {
        served += u32::from(allowed(&locks, "alice").await?);
    }
    println!("alice: {served} of 7 requests in one second");
    assert!(allowed(&locks, "bob").await?, "bob has a window of his own");
    Ok(())
}
