//! The stories of all SQL databases, on PostgreSQL.

use tenure_conformance::fault::stories::sql::{SqlServer, SqlSession};
use tenure_core::layers::AnyEngine;
use tenure_core::{Locks, Result};
use tenure_servers::postgres::Server;

use super::stage::{Stranger, connections, play, row_refusals};

/// A real PostgreSQL.
pub(super) struct PostgreSql(pub(super) Server);

fn on_server(story: impl AsyncFnOnce(&PostgreSql)) {
    play(async || story(&PostgreSql(Server::start().unwrap())).await);
}

tenure_conformance::sql_stories!(on_server);

impl SqlServer for PostgreSql {
    type Stranger = Stranger;

    const TABLES: &str = "tenure.";
    const QUOTE: char = '"';
    const NOW_US: &str = "extract(epoch FROM clock_timestamp()) * 1000000";
    const TAKE_A: &str = "UPDATE tenure.line a SET version = a.version + 1, at_us = b.at_us, \
         last = b.last, holder = b.holder, ends_us = b.ends_us, tickets = b.tickets \
         FROM tenure.line b WHERE a.key = 'a' AND b.key = 'b'";
    const MEETING: (usize, u32) = (8, 4);

    fn url(&self) -> String {
        self.0.url()
    }

    fn other_tables(name: &str) -> String {
        format!("schema={name}")
    }

    async fn try_connect(url: &str) -> Result<Locks> {
        tenure_postgres::connect(url).await
    }

    async fn engine(url: &str) -> AnyEngine {
        super::stage::engine(url).await
    }

    async fn stranger(&self) -> Stranger {
        Stranger::of(&self.0).await
    }

    fn sql(&self, statements: &str) -> String {
        self.0.sql(statements).unwrap()
    }

    fn connections(&self) -> i64 {
        connections(&self.0, "")
    }

    async fn transactions(&self) -> i64 {
        ["active", "idle in transaction"].map(|state| connections(&self.0, state)).iter().sum()
    }

    fn check_connections(&self) {
        assert_eq!(connections(&self.0, "idle in transaction"), 0);
    }

    fn row_waits(&self) -> i64 {
        row_refusals(&self.0)
    }

    fn freeze(&self) {
        self.0.freeze().unwrap();
    }

    fn thaw(&self) {
        self.0.thaw().unwrap();
    }
}

impl SqlSession for Stranger {
    async fn sql(&mut self, statements: &str) {
        Stranger::sql(self, statements).await;
    }
}
