//! A schema of a test's own on a shared deployment, and clients of its database.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tenure_core::Locks;
use tenure_servers::{Tool, have};
use tokio_postgres::{Client, NoTls};

/// Pause between two reads of a state that a test waits for.
const PAUSE: Duration = Duration::from_millis(5);

/// A fixture: a schema with the tables of the locks and a table `written` of the test's own.
pub(crate) struct Bench {
    url: String,
    pub(crate) schema: String,
    /// A client outside of every transaction.
    pub(crate) client: Client,
}

impl Bench {
    /// Makes one on this deployment. `None`, and a line that says why, without its programs.
    pub(crate) async fn at(variable: &str, needs: &[Tool]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let is_set = std::env::var_os(variable).is_some_and(|url| !url.is_empty());
        if !is_set && !have(needs) {
            return None;
        }
        let url = tenure_servers::url_of(variable).expect("it starts");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("hold_{}_{number}", std::process::id());
        let bench = Self { client: connect(&url).await, url, schema };
        bench.locks().await;
        bench.sql("CREATE TABLE {schema}.written (step text)").await;
        Some(bench)
    }

    /// A client of the locks.
    pub(crate) async fn locks(&self) -> Locks {
        tenure_postgres::connect(self.locks_url()).await.unwrap()
    }

    /// One more client, for a transaction.
    pub(crate) async fn connect(&self) -> Client {
        connect(&self.url).await
    }

    /// Replaces `{schema}`.
    pub(crate) fn text(&self, statements: &str) -> String {
        statements.replace("{schema}", &self.schema)
    }

    pub(crate) async fn sql(&self, statements: &str) {
        self.client.batch_execute(&self.text(statements)).await.unwrap();
    }

    /// Returns a number.
    pub(crate) async fn number(&self, query: &str) -> i64 {
        let query = format!("SELECT ({})::bigint", self.text(query));
        self.client.query_typed_one(&query, &[]).await.unwrap().get(0)
    }

    /// Waits until the number is more than 0.
    pub(crate) async fn until(&self, query: &str) {
        while self.number(query).await <= 0 {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Removes the schema.
    pub(crate) async fn end(self) {
        self.sql("DROP SCHEMA {schema} CASCADE").await;
    }

    /// The URL of the locks.
    pub(crate) fn locks_url(&self) -> String {
        let between = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{between}schema={}", self.url, self.schema)
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(async move {
        let _ = connection.await; // The client gets the error, too.
    });
    client
}
