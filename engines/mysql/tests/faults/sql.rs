//! The stories of all SQL databases, on MariaDB.

use tenure_conformance::fault::stories::sql::{SqlServer, SqlSession};
use tenure_core::layers::AnyEngine;
use tenure_core::{Locks, Result};
use tenure_servers::mariadb::Server;

use super::stage::{Stranger, connections, play, row_waits, transactions};

/// A real MariaDB.
pub(super) struct MariaDb(pub(super) Server);

fn on_server(story: impl AsyncFnOnce(&MariaDb)) {
    play(async || story(&MariaDb(Server::start().unwrap())).await);
}

tenure_conformance::sql_stories!(on_server);

impl SqlServer for MariaDb {
    type Stranger = Stranger;

    const TABLES: &str = "locks.tenure_";
    const QUOTE: char = '`';
    const NOW_US: &str = "timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";
    const TAKE_A: &str = "UPDATE tenure_line a JOIN tenure_line b ON a.`key` = 'a' AND b.`key` = 'b' \
         SET a.version = a.version + 1, a.at_us = b.at_us, a.`last` = b.`last`, \
         a.holder = b.holder, a.ends_us = b.ends_us, a.tickets = b.tickets";
    const MEETING: (usize, u32) = (4, 2);

    fn url(&self) -> String {
        self.0.url()
    }

    fn other_tables(name: &str) -> String {
        format!("prefix={name}_")
    }

    async fn try_connect(url: &str) -> Result<Locks> {
        tenure_mysql::connect(url).await
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
        connections(&self.0)
    }

    async fn transactions(&self) -> i64 {
        transactions(&self.0).await
    }

    fn row_waits(&self) -> i64 {
        row_waits(&self.0)
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
