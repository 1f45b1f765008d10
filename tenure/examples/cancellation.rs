//! Ends the tasks of a program by a `CancellationToken` when its lock is lost.

use tenure::{Locks, MutexGuard, Result};
use tokio_util::sync::CancellationToken;

/// Returns a token that is cancelled when the lock is lost. The task ends with the lock.
fn cancelled_on_loss(guard: &MutexGuard) -> CancellationToken {
    let (lost, ended) = (CancellationToken::new(), guard.ended());
    let cancelled = lost.clone();
    tokio::spawn(async move {
        if let Some(loss) = ended.await {
            println!("the lock is lost: {loss}");
            cancelled.cancel();
        }
    });
    lost
}

async fn copy(part: u32, lost: CancellationToken) -> u32 {
    let forever = std::future::pending::<()>();
    // A task with steps of its own checks `lost.is_cancelled()` between them.
    lost.run_until_cancelled(forever).await;
    println!("part {part} has stopped");
    part
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks: Locks = tenure::connect("memory:").await?;
    let guard = locks.mutex("backup").lock().await?;
    let lost = cancelled_on_loss(&guard);
    let parts = (0..3).map(|part| tokio::spawn(copy(part, lost.clone()))).collect::<Vec<_>>();

    // An operator ends the hold. The next holder is served when this guard is released.
    locks.break_ticket("backup", guard.id()).await?;
    let mut stopped = 0;
    for part in parts {
        stopped += u32::from(part.await.is_ok());
    }
    assert_eq!(stopped, 3);
    drop(guard);
    locks.close().await;
    Ok(())
}
