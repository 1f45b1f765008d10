//! Amounts that are booked on an account, by two jobs of which one is late.
//!
//! Run it as `cargo run --example account -- 'mongodb://127.0.0.1/?replicaSet=rs0'`. It keeps the
//! documents in the database `tenure-example` of that MongoDB, and the lock in files. A second run
//! continues with the same account.
//!
//! A job takes the lock, reads the balance, and writes a booking with the new balance. It is paused
//! between read and write, its lease ends, and another job takes over. With the lock alone, the
//! late job would overwrite the balance of the other job. The fence refuses its write.

use std::error::Error;

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection};
use tenure_core::{ErrorKind, Locks};
use tenure_fence_mongodb::{Fence, Stale, Write};

/// An account, written only by holders of the lock.
struct Account {
    balances: Collection<Document>,
    bookings: Collection<Document>,
    fence: Fence,
}

impl Account {
    async fn open(url: &str) -> Result<Self, Box<dyn Error>> {
        let database = Client::with_uri_str(url).await?.database("tenure-example");
        let (balances, bookings) =
            (database.collection("balances"), database.collection("bookings"));
        Ok(Self { balances, bookings, fence: Fence::new(&database, "account")? })
    }

    /// Claims the fence, and then reads the balance.
    async fn balance(&self, token: tenure_core::Token) -> Result<i64, Box<dyn Error>> {
        self.fence.claim(token).await?;
        let balance = self.balances.find_one(doc! { "_id": "account" }).await?;
        Ok(balance.map_or(Ok(0), |balance| balance.get_i64("amount"))?)
    }

    /// Writes the booking and the balance in one step: both, or neither.
    async fn book(
        &self,
        amount: i64,
        before: i64,
        token: tenure_core::Token,
    ) -> tenure_core::Result<()> {
        let booked = Write::insert(&self.bookings, &doc! { "amount": amount })?;
        let balance = doc! { "_id": "account", "amount": before + amount };
        let account = doc! { "_id": "account" };
        let balanced = Write::replace_one(&self.balances, account, &balance)?.or_insert();
        self.fence.write([booked, balanced], token).await.map(drop)
    }
}

async fn story(url: &str) -> Result<(), Box<dyn Error>> {
    let store = std::env::temp_dir().join("tenure-example-account");
    let locks = Locks::new(tenure_file::connect(&format!("file:{}", store.display()))?);
    let account = Account::open(url).await?;

    let morning = locks.mutex("account").lock().await?;
    let seen = account.balance(morning.token()).await?;
    println!("The morning job holds the lock with token {}, and reads {seen}.", morning.token());
    println!("Then it is paused, and its lease ends: here an operator removes its ticket.");
    locks.force_unlock("account", morning.id()).await?;

    let relief = locks.mutex("account").lock().await?;
    let before = account.balance(relief.token()).await?;
    println!("The relief job holds the lock with token {}, and claims it.", relief.token());

    // The relief job has written nothing yet. Its claim is enough to refuse the late job.
    let late = account.book(100, seen, morning.token()).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Lost);
    let stale = Stale::of(&late).expect("the late job's token is stale");
    println!("The morning job comes back and books 100: refused, {stale}.");

    account.book(80, before, relief.token()).await?;
    let after = account.balance(relief.token()).await?;
    println!("The relief job books 80: {before} became {after}.");
    assert_eq!(after, before + 80);
    relief.release().await?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "mongodb://127.0.0.1".to_owned());
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(story(&url))
}
