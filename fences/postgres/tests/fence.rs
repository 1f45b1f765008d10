//! Guarded writes to a PostgreSQL that all tests share, each in a schema of its own.

#[path = "fence/coverage.rs"]
mod coverage;
#[path = "fence/install.rs"]
mod install;
#[path = "fence/pooler.rs"]
mod pooler;
#[path = "fence/race.rs"]
mod race;
#[path = "fence/recipes.rs"]
mod recipes;
#[path = "fence/trouble.rs"]
mod trouble;
#[path = "fence/verbs.rs"]
mod verbs;

use std::sync::atomic::{AtomicU32, Ordering};

use tenure_core::{ErrorKind, Result};
use tenure_fence_postgres::{Fence, Stale, execute, into_error};
use tenure_servers::postgres::{POSTGRES, Server};
use tenure_servers::{Tool, have};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

fn numbered(number: u64) -> tenure_core::Token {
    tenure_core::Token::new(number).unwrap()
}

/// A fixture: a schema of the test's own, with a table under a fence that has the row 1, and a
/// client whose search path is the schema.
struct Bench {
    url: String,
    schema: String,
    client: Client,
}

impl Bench {
    /// Runs one test. Skips it if there is no PostgreSQL on this machine.
    fn run(test: impl AsyncFnOnce(&mut Self)) {
        if let Some(url) = url("TENURE_TEST_POSTGRES_URL", &[POSTGRES]) {
            block_on(Self::at(url, test));
        }
    }

    /// Runs one test as the superuser of a server of the test's own.
    fn run_as_superuser(test: impl AsyncFnOnce(&mut Self)) {
        if have(&[POSTGRES]) {
            let server = Server::start().expect("it starts");
            block_on(Self::at(server.url(), test));
        }
    }

    async fn at(url: String, test: impl AsyncFnOnce(&mut Self)) {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("fence_{}_{number}", std::process::id());
        let client = connect(&url).await;
        let mut bench = Self { url, schema, client };
        let schema = bench.schema.clone();
        bench.sql(&format!("CREATE SCHEMA {schema}; SET search_path = {schema}")).await;
        bench.sql("CREATE TABLE accounts (id int PRIMARY KEY, amount int NOT NULL)").await;
        bench.sql("INSERT INTO accounts VALUES (1, 0)").await;
        bench.fence("accounts").install(&bench.client).await.unwrap();
        test(&mut bench).await;
        bench.sql(&format!("DROP SCHEMA {schema} CASCADE")).await;
    }

    fn fence(&self, table: &str) -> Fence {
        Fence::new(&self.schema, table).unwrap()
    }

    /// Connects once more.
    async fn connect(&self) -> Client {
        let client = connect(&self.url).await;
        client.batch_execute(&format!("SET search_path = {}", self.schema)).await.unwrap();
        client
    }

    /// Runs statements as they are.
    async fn sql(&self, statements: &str) {
        self.client.batch_execute(statements).await.unwrap();
    }

    /// Runs one statement under a token.
    async fn write(&mut self, statement: &str, token: u64) -> Result<u64> {
        execute(&mut self.client, statement, &[], numbered(token)).await
    }

    /// Sets the amount of the account.
    async fn set(&mut self, amount: i32, token: u64) -> Result<()> {
        let update = "UPDATE accounts SET amount = $1 WHERE id = 1";
        let changed =
            execute(&mut self.client, update, &[(&amount, Type::INT4)], numbered(token)).await?;
        assert_eq!(changed, 1);
        Ok(())
    }

    /// Returns the value as text.
    async fn value(&self, query: &str) -> Option<String> {
        let rows = self.client.query_typed(&format!("SELECT ({query})::text"), &[]).await;
        rows.unwrap()[0].get(0)
    }

    /// Returns the value as text, which is not null.
    async fn one(&self, query: &str) -> String {
        self.value(query).await.expect("it is not null")
    }

    /// Returns the amount and the token of the account.
    async fn account(&self) -> (i32, i64) {
        let select = "SELECT amount, tenure_token FROM accounts WHERE id = 1";
        let rows = self.client.query_typed(select, &[]).await.unwrap();
        (rows[0].get(0), rows[0].get(1))
    }
}

/// Returns the URL of a deployment that all tests share, or prints `SKIPPED` and the reason.
fn url(variable: &str, needs: &[Tool]) -> Option<String> {
    let is_set = std::env::var_os(variable).is_some_and(|url| !url.is_empty());
    (is_set || have(needs)).then(|| tenure_servers::url_of(variable).expect("it starts"))
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await; // The client gets the error, too.
    });
    client
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(future)
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
