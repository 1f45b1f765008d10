//! Six servers restart, at most two at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tenure::{Locks, Result};

async fn restart(locks: Locks, server: u32, down: Arc<AtomicU32>) -> Result<()> {
    let permit = locks.semaphore("restarts", 2).note(format!("web-{server}")).acquire().await?;
    let now_down = down.fetch_add(1, Ordering::SeqCst) + 1;
    println!("web-{server} is down, with {} other", now_down - 1);
    assert!(now_down <= 2, "no more than two are down");
    tokio::task::yield_now().await;
    down.fetch_sub(1, Ordering::SeqCst);
    permit.release().await
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks = tenure::connect("memory:").await?;
    let down = Arc::new(AtomicU32::new(0));
    let restarts: Vec<_> =
        (1..=6).map(|server| tokio::spawn(restart(locks.clone(), server, down.clone()))).collect();
    for restart in restarts {
        restart.await.expect("no restart panics")?;
    }
    println!("all six are back");
    Ok(())
}
