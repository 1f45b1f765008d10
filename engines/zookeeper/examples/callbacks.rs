//! Lock, then call me, then tell me of the loss: a lock with two callbacks, as articles on
//! `ZooKeeper` have it.
//!
//!     cargo run -p tenure-zookeeper --example callbacks -- zookeeper://localhost

use tenure_core::{Locks, Loss, Result};

/// Waits for the lock. `held` is called with its token and works until it returns; if the lock is
/// lost before, the work is stopped first, and `lost` is called then.
async fn with_lock<W: Future<Output = ()>>(
    locks: &Locks,
    key: &str,
    held: impl FnOnce(u64) -> W,
    lost: impl FnOnce(Loss),
) -> Result<()> {
    let guard = locks.mutex(key).lock().await?;
    let worked = match guard.run(held(guard.token().get())).await {
        Ok(()) => guard.release().await,
        Err(error) => Err(error),
    };
    worked.or_else(|error| error.loss().map(lost).ok_or(error))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "zookeeper://localhost".into());
    let locks = tenure_zookeeper::connect(url).await?;
    let held = |token| async move { println!("held, with the token {token}") };
    with_lock(&locks, "nightly", held, |loss| println!("lost: {loss}")).await?;
    locks.close().await;
    Ok(())
}
