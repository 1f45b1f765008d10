//! A nightly job that starts on three machines and succeeds once a night.
//!
//! The cron of each machine fires at about the same time. The first machine runs the job under a
//! lock. When a machine with a late clock comes, the store has the success of this night.

use std::io;
use std::time::Duration;

use tenure::{Locks, OnceOutcome, Result};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn nightly(locks: Locks, machine: &str) -> Result<bool> {
    let night = locks.once("nightly").every(DAY).note(machine);
    match night.run(|_token, _lease| back_up(machine)).await? {
        OnceOutcome::Done(files) => println!("{machine}: {files} files are backed up"),
        OnceOutcome::Failed(error) => println!("{machine}: the next machine tries again: {error}"),
        OnceOutcome::Over(run) => {
            println!("{machine}: {} has backed up, with token {}", run.owner, run.token);
            return Ok(false);
        }
    }
    Ok(true)
}

async fn back_up(machine: &str) -> io::Result<u32> {
    tokio::task::yield_now().await;
    if machine == "ams-1" {
        return Err(io::Error::other("the disk is full"));
    }
    Ok(40)
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks = tenure::connect("memory:").await?;
    let mut ran = Vec::new();
    for machine in ["ams-1", "fra-1", "lhr-1"] {
        if nightly(locks.with_owner(machine)?, machine).await? {
            ran.push(machine);
        }
    }
    assert_eq!(ran, ["ams-1", "fra-1"], "the second machine ran what the first had failed");
    Ok(())
}
