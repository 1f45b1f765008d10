//! Invoices that are numbered without a gap, by two jobs of which one is late.
//!
//! Run it as `cargo run --example invoice -- redis://127.0.0.1`. It keeps the invoices in the keys
//! `{example-invoices}:…` of that Redis, and the lock in files. A second run continues the numbers.
//!
//! A job takes the lock, reads the next number and writes the invoice. It is paused between read
//! and write, its lease ends, and another job takes over. With the lock alone, both jobs would
//! write the same number. The fence refuses the late job because of its token. The number and the
//! invoice are one step, so a refused job uses up no number.

use std::error::Error;

use redis::aio::MultiplexedConnection;
use tenure_core::{ErrorKind, Locks};
use tenure_fence_redis::{Fence, FencedScript, Stale};

const NEXT: &str = "{example-invoices}:next";
const LIST: &str = "{example-invoices}:list";

/// Assigns the number and writes the invoice in one step: both, or neither.
const WRITE: &str = "
    local number = redis.call('INCR', KEYS[1])
    redis.call('HSET', KEYS[2], number, ARGV[1])
    return number
";

/// The invoices, written only by holders of the lock.
struct Invoices {
    redis: MultiplexedConnection,
    fence: Fence,
    write: FencedScript,
}

impl Invoices {
    async fn open(url: &str) -> Result<Self, Box<dyn Error>> {
        let redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        // The braces put the fence and the keys into one slot of a Cluster.
        let fence = Fence::new("{example-invoices}")?;
        Ok(Self { redis, fence, write: FencedScript::new(WRITE)? })
    }

    /// Raises the token of the fence before the first read.
    async fn claim(&mut self, token: tenure_core::Token) -> tenure_core::Result<()> {
        self.fence.claim(&mut self.redis, token).await
    }

    /// Writes one invoice, and returns its number.
    async fn add(&mut self, invoice: &str, token: tenure_core::Token) -> tenure_core::Result<u64> {
        self.fence.run(&mut self.redis, &self.write, &[NEXT, LIST], invoice, token).await
    }

    /// Returns the number of assigned numbers and the number of invoices.
    async fn count(&mut self) -> redis::RedisResult<(u64, u64)> {
        redis::pipe().get(NEXT).hlen(LIST).query_async(&mut self.redis).await
    }
}

async fn story(url: &str) -> Result<(), Box<dyn Error>> {
    let store = std::env::temp_dir().join("tenure-example-invoices");
    let locks = Locks::new(tenure_file::connect(&format!("file:{}", store.display()))?);
    let mut invoices = Invoices::open(url).await?;

    let morning = locks.mutex("invoices").lock().await?;
    invoices.claim(morning.token()).await?;
    let number = invoices.add("Ada, 120.00", morning.token()).await?;
    println!(
        "The morning job holds the lock with token {}, and writes invoice {number}.",
        morning.token()
    );
    println!("Then it is paused, and its lease ends: here an operator removes its ticket.");
    locks.force_unlock("invoices", morning.id()).await?;

    let relief = locks.mutex("invoices").lock().await?;
    invoices.claim(relief.token()).await?;
    println!("The relief job holds the lock with token {}, and claims it.", relief.token());

    // The relief job has written nothing yet. Its claim is enough to refuse the late job.
    let late = invoices.add("Bob, 80.00", morning.token()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Lost);
    let stale = Stale::of(&late).expect("the late job's token is stale");
    println!("The morning job comes back and writes: refused, {stale}.");

    let number = invoices.add("Bob, 80.00", relief.token()).await?;
    println!("The relief job writes invoice {number}: no number was lost or given twice.");

    let (numbers, count) = invoices.count().await?;
    println!("Numbers given so far: {numbers}. Invoices: {count}.");
    assert_eq!(numbers, count);
    relief.release().await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1".to_owned());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(story(&url))
}
