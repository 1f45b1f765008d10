//! Amounts that are booked on an account, by two jobs of which one is late.
//!
//! Run it with the URL of a database:
//!
//! ```sh
//! cargo run -p tenure-fence-postgres --example account -- postgres://postgres@localhost/postgres
//! ```
//!
//! It keeps the tables in the schema `tenure_example` of that PostgreSQL, and the lock in files. A
//! second run continues with the same account.
//!
//! A job takes the lock, reads the balance, and writes a booking with the new balance. It is paused
//! between read and write, its lease ends, and another job takes over. With the lock alone, the
//! late job would overwrite the balance of the other job. The fence refuses its write, and its
//! transaction is rolled back with the booking.

use std::error::Error;

use tenure_core::{ErrorKind, Locks, Token};
use tenure_fence_postgres::{Fence, Stale, into_error, query, set_token};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

const TABLES: &str = "
    CREATE SCHEMA IF NOT EXISTS tenure_example;
    CREATE TABLE IF NOT EXISTS tenure_example.bookings (account int, amount bigint);
    CREATE TABLE IF NOT EXISTS tenure_example.accounts (id int PRIMARY KEY, balance bigint);
";

/// Claims the account, and reads its balance in the same step.
const CLAIM: &str = "
    INSERT INTO tenure_example.accounts (id, balance) VALUES (1, 0)
    ON CONFLICT (id) DO UPDATE SET id = EXCLUDED.id RETURNING balance
";

/// Returns the balance. From now on the fence refuses older holders.
async fn balance(client: &mut Client, token: Token) -> tenure_core::Result<i64> {
    let rows = query(client, CLAIM, &[], token).await?;
    rows[0].try_get(0).map_err(into_error)
}

/// Writes the booking and the balance in one transaction: both, or neither.
async fn book(
    client: &mut Client,
    amount: i64,
    before: i64,
    token: Token,
) -> tenure_core::Result<()> {
    let tx = client.transaction().await.map_err(into_error)?;
    set_token(&tx, token).await?;
    let booking = "INSERT INTO tenure_example.bookings VALUES (1, $1)";
    tx.execute_typed(booking, &[(&amount, Type::INT8)]).await.map_err(into_error)?;
    let update = "UPDATE tenure_example.accounts SET balance = $1 WHERE id = 1";
    tx.execute_typed(update, &[(&(before + amount), Type::INT8)]).await.map_err(into_error)?;
    tx.commit().await.map_err(into_error)
}

async fn story(url: &str) -> Result<(), Box<dyn Error>> {
    let store = std::env::temp_dir().join("tenure-example-postgres");
    let locks = Locks::new(tenure_file::connect(&format!("file:{}", store.display()))?);
    let (mut client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute(TABLES).await?;
    Fence::new("tenure_example", "accounts")?.install(&client).await?;

    let morning = locks.mutex("account").lock().await?;
    let seen = balance(&mut client, morning.token()).await?;
    println!("The morning job holds the lock with token {}, and reads {seen}.", morning.token());
    println!("Then it is paused, and its lease ends: here an operator removes its ticket.");
    locks.force_unlock("account", morning.id()).await?;

    let relief = locks.mutex("account").lock().await?;
    let before = balance(&mut client, relief.token()).await?;
    println!("The relief job holds the lock with token {}, and claims it.", relief.token());

    // The relief job has written nothing yet. Its claim is enough to refuse the late job.
    let late = book(&mut client, 100, seen, morning.token()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Lost);
    let stale = Stale::of(&late).expect("the late job's token is stale");
    println!("The morning job comes back and books 100: refused, {stale}.");

    book(&mut client, 80, before, relief.token()).await?;
    let after = balance(&mut client, relief.token()).await?;
    println!("The relief job books 80: {before} became {after}.");
    assert_eq!(after, before + 80);
    relief.release().await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    let url = url.unwrap_or_else(|| "postgres://postgres@localhost/postgres".to_owned());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(story(&url))
}
