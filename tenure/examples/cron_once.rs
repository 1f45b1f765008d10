//! A nightly job that starts on three machines and runs on one.
//!
//! The cron of each machine fires at about the same time. The first machine that counts runs the
//! job. A machine with a late clock finds the night counted. The lock keeps two nights from
//! overlapping.

use std::time::Duration;

use tenure::{Locks, Result};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn nightly(locks: Locks, machine: &str) -> Result<bool> {
    let night = locks.counter("nightly/2026-11-21").window(DAY).limit(1);
    if !night.add(1).await?.allowed {
        println!("{machine}: another machine has this night");
        return Ok(false);
    }
    let guard = locks.mutex("nightly").note(machine).lock().await?;
    guard.run(back_up(machine)).await?;
    guard.release().await?;
    Ok(true)
}

async fn back_up(machine: &str) {
    println!("{machine}: backing up");
    tokio::task::yield_now().await;
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks = tenure::connect("memory:").await?;
    let mut ran = 0;
    for machine in ["ams-1", "fra-1", "lhr-1"] {
        ran += u32::from(nightly(locks.clone(), machine).await?);
    }
    assert_eq!(ran, 1, "it ran once");
    Ok(())
}
