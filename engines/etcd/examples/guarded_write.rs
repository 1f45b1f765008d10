//! A write that an old holder cannot make, with a client that is not Tenure's: here `etcdctl`.
//!
//! Run it as `cargo run --example guarded_write -- 127.0.0.1:2379`. It keeps its data in the key
//! `example/state` of that cluster.
//!
//! The morning job takes a lock and is paused at the worst moment. Its ticket ends, and the relief
//! job takes over. With the lock alone, the morning job would come back and write over what the
//! relief job wrote. Here etcd refuses that write, because the transaction compares the ticket's
//! own key.

use std::error::Error;
use std::io::Write as _;
use std::process::{Command, Stdio};

use tenure_etcd::StillHeld;

/// Writes the state if the lock is still held, and returns whether it was.
fn write(member: &str, state: &str, still_held: &StillHeld) -> Result<bool, Box<dyn Error>> {
    let mut etcdctl = Command::new("etcdctl")
        .env("ETCDCTL_API", "3")
        .args([&format!("--endpoints={member}"), "txn"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The comparisons, what is done if all are true, and what is done if not.
    let transaction = format!("{still_held}\n\nput example/state \"{state}\"\n\n\n");
    etcdctl.stdin.take().expect("it was asked for").write_all(transaction.as_bytes())?;
    let output = etcdctl.wait_with_output()?;
    if !output.status.success() {
        return Err("etcdctl could not ask the cluster".into());
    }
    Ok(output.stdout.starts_with(b"SUCCESS"))
}

async fn story(member: &str) -> Result<(), Box<dyn Error>> {
    let url = format!("etcd://{member}");
    let locks = tenure_etcd::connect(&url).await?;
    let morning = locks.mutex("example").lock().await?;
    let of_morning = StillHeld::find(&url, &morning.handle()).await?;
    assert!(write(member, "begun by the morning job", &of_morning)?);
    println!("The morning job holds the lock with token {}, and writes.", morning.token());
    println!("Then it is paused. Its lease ends; here an operator takes its ticket out.");
    locks.force_unlock("example", morning.id()).await?;

    let relief = locks.mutex("example").lock().await?;
    println!("The relief job holds the lock with token {}.", relief.token());
    assert!(!write(member, "ended by the morning job", &of_morning)?);
    println!("The morning job comes back and writes: refused, because {of_morning} is not true.");
    let of_relief = StillHeld::find(&url, &relief.handle()).await?;
    assert!(write(member, "ended by the relief job", &of_relief)?);
    println!("The relief job writes.");
    relief.release().await?;
    locks.close().await;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let member = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:2379".to_owned());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(story(&member))
}
