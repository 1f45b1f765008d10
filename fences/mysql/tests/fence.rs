//! Guarded writes to a MariaDB that all tests share, each in a database of its own.
#![cfg(unix)]

#[path = "fence/coverage.rs"]
mod coverage;
#[path = "fence/install.rs"]
mod install;
#[path = "fence/race.rs"]
mod race;
#[path = "fence/token.rs"]
mod token;
#[path = "fence/verbs.rs"]
mod verbs;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql_async::prelude::{FromValue, Queryable as _};
use mysql_async::{Conn, IsolationLevel, OptsBuilder, TxOpts};
use tenure_core::{ErrorKind, Result, Token};
use tenure_fence_mysql::{Fence, Stale, into_error, mysql_async};
use tenure_servers::have;
use tenure_servers::mariadb::{MARIADB, Server, Setup};
use tokio::task::JoinHandle;

/// Pause between two reads of a state that a test waits for.
const PAUSE: Duration = Duration::from_millis(5);

fn numbered(number: u64) -> Token {
    Token::new(number).unwrap()
}

/// A fixture: a database of the test's own, with a table under a fence that has the row 1, and a
/// connection to it.
struct Bench {
    port: u16,
    database: String,
    connection: Conn,
    fence: Fence,
}

impl Bench {
    /// Runs one test. Skips it if there is no MariaDB on this machine.
    fn run(test: impl AsyncFnOnce(&mut Self)) {
        static SERVER: OnceLock<Server> = OnceLock::new();
        if have(&[MARIADB]) {
            Self::on(SERVER.get_or_init(server), test);
        }
    }

    /// Runs one test on a server of the test's own.
    fn run_alone(test: impl AsyncFnOnce(&mut Self)) {
        if have(&[MARIADB]) {
            Self::on(&server(), test);
        }
    }

    fn on(server: &Server, test: impl AsyncFnOnce(&mut Self)) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(Self::at(server.port(), test));
    }

    async fn at(port: u16, test: impl AsyncFnOnce(&mut Self)) {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let database = format!("fence_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let mut root = connect(port, "root", None).await;
        root.query_drop(format!("CREATE DATABASE {database}")).await.unwrap();
        let connection = connect(port, "root", Some(&database)).await;
        let fence = Fence::new(database.as_str(), "accounts").unwrap();
        let mut bench = Self { port, database, connection, fence };
        bench.sql("CREATE TABLE accounts (id INT PRIMARY KEY, amount INT NOT NULL)").await;
        bench.sql("INSERT INTO accounts VALUES (1, 0)").await;
        bench.fence.install(&mut bench.connection).await.unwrap();
        test(&mut bench).await;
        let left: u64 = bench.one("SELECT count(*) FROM tenure_fence_session").await;
        assert_eq!(left, 0, "a token is left");
    }

    fn fence_of(&self, table: &str) -> Fence {
        Fence::new(self.database.as_str(), table).unwrap()
    }

    /// Connects once more.
    async fn connect(&self) -> Conn {
        connect(self.port, "root", Some(&self.database)).await
    }

    /// Runs statements as they are.
    async fn sql(&mut self, statements: &str) {
        self.connection.query_drop(statements).await.unwrap();
    }

    /// Runs one statement without a token.
    async fn plain(&mut self, statement: &str) -> Result<()> {
        self.connection.query_drop(statement).await.map_err(into_error)
    }

    /// Runs one statement under a token. Returns the number of changed rows.
    async fn write(&mut self, statement: &str, token: u64) -> Result<u64> {
        write(&self.fence, &mut self.connection, statement, token, TxOpts::default()).await
    }

    /// Returns the value.
    async fn one<T: FromValue + Send + 'static>(&mut self, query: &str) -> T {
        self.connection.query_first(query).await.unwrap().expect("there is a row")
    }

    /// Returns how often a transaction has had to wait for a row since the server started.
    async fn row_waits(&mut self) -> u64 {
        let waits = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
                     WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_WAITS'";
        self.one::<String>(waits).await.parse().unwrap()
    }

    /// Waits until the task waits for a row. The server is the test's own.
    async fn until_blocked<T>(&mut self, before: u64, task: &JoinHandle<T>) {
        while self.row_waits().await == before {
            assert!(!task.is_finished(), "it did not wait");
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Returns the amount and the token of the account.
    async fn account(&mut self) -> (i32, u64) {
        let select = "SELECT amount, tenure_token FROM accounts WHERE id = 1";
        self.connection.query_first(select).await.unwrap().expect("there is a row")
    }
}

/// Starts a server. Its log makes triggers read as they do in a server with replicas.
fn server() -> Server {
    let setup = Setup::new().setting("log_bin=log").setting("server_id=7");
    setup.start().expect("it starts")
}

async fn connect(port: u16, user: &str, database: Option<&str>) -> Conn {
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .user(Some(user))
        .db_name(database)
        .prefer_socket(false);
    Conn::new(options).await.unwrap()
}

/// Runs one statement under a token in a transaction of its own.
async fn write(
    fence: &Fence,
    connection: &mut Conn,
    statement: &str,
    token: u64,
    options: TxOpts,
) -> Result<u64> {
    let mut transaction = fence.begin_with(connection, numbered(token), options).await?;
    if let Err(error) = transaction.query_drop(statement).await {
        // The server may have rolled back, or ended the session.
        let _ = transaction.rollback().await;
        return Err(into_error(error));
    }
    let changed = transaction.affected_rows();
    transaction.commit().await?;
    Ok(changed)
}

fn at_level(level: IsolationLevel) -> TxOpts {
    let mut options = TxOpts::default();
    options.with_isolation_level(level);
    options
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
