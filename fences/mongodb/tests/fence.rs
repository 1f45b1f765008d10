//! Guarded writes to a MongoDB that all tests share, or to one of the test's own.

#[path = "fence/race.rs"]
mod race;
#[path = "fence/trouble.rs"]
mod trouble;
#[path = "fence/verbs.rs"]
mod verbs;

use std::sync::atomic::{AtomicU32, Ordering};

use mongodb::bson::{Document, doc};
use mongodb::{Client, Collection, Database};
use tenure_core::{ErrorKind, Result};
use tenure_fence_mongodb::{Fence, Stale};
use tenure_servers::have;
use tenure_servers::mongodb::MONGOD;

fn numbered(number: u64) -> tenure_core::Token {
    tenure_core::Token::new(number).unwrap()
}

/// A fixture: a database of the test's own, a collection, and a fence.
struct Bench {
    database: Database,
    accounts: Collection<Document>,
    fence: Fence,
}

impl Bench {
    /// Runs one test. Skips it if there is no MongoDB on this machine.
    fn run(test: impl AsyncFnOnce(Self)) {
        if !have(&[MONGOD]) {
            return;
        }
        let url = tenure_servers::url_of("TENURE_TEST_MONGODB_URL").expect("it is started");
        block_on(async {
            let bench = Self::at(&url).await;
            let database = bench.database.clone();
            test(bench).await;
            database.drop().await.expect("it is ours");
        });
    }

    async fn at(url: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let client = Client::with_uri_str(url).await.expect("it is a URL");
        let database = client.database(&format!("fence-{}-{number}", std::process::id()));
        let fence = Fence::new(&database, "accounts").expect("it is a name");
        Self { accounts: database.collection("accounts"), database, fence }
    }

    /// Returns the amount of the account.
    async fn amount(&self) -> i32 {
        let account = self.accounts.find_one(doc! { "_id": 1 }).await.expect("it answers");
        account.expect("it is there").get_i32("amount").expect("it is a number")
    }

    async fn set(&self, amount: i32, token: u64) -> Result<()> {
        let update = doc! { "$set": { "amount": amount } };
        self.fence
            .update_one(&self.accounts, doc! { "_id": 1 }, update, numbered(token))
            .await
            .map(drop)
    }

    async fn insert(&self, id: i32, token: u64) -> Result<()> {
        let account = doc! { "_id": id, "amount": 0 };
        self.fence.insert_one(&self.accounts, &account, numbered(token)).await.map(drop)
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("there are threads").block_on(future)
}

/// Asserts that the write was refused because of a newer token.
#[track_caller]
fn assert_stale<T: std::fmt::Debug>(answer: Result<T>, token: u64, newest: u64) {
    let error = answer.expect_err("a newer token was seen");
    assert_eq!(error.kind(), ErrorKind::Lost, "{error:?}");
    assert_eq!(Stale::of(&error), Some(Stale { token, newest }), "{error:?}");
}

/// Asserts that the write failed with this kind, and that the message contains `part`.
#[track_caller]
fn assert_failed<T: std::fmt::Debug>(answer: Result<T>, kind: ErrorKind, part: &str) {
    let error = answer.expect_err("it fails");
    assert_eq!(error.kind(), kind, "{error:?}");
    assert_eq!(Stale::of(&error), None, "{error:?}");
    assert!(error.to_string().contains(part), "{error}");
    assert!(!error.to_string().contains('\n'), "{error}");
}
