//! Rights: a user with those that the README names, and no others, can keep locks.
#![cfg(unix)]

use std::sync::Arc;
use std::time::Duration;

use tenure_core::layers::OnRuntime;
use tenure_core::{
    BackgroundRuntime, Engine as _, ErrorKind, Key, LeaveMode, Result, Runtime, Share, Ticket,
    WaitMode, Window,
};
use tenure_postgres::{HoldIn as _, PostgresStore, Settings};
use tenure_record::{RecordEngine, RecordStore as _};
use tenure_servers::have;
use tenure_servers::postgres::{POSTGRES, Server};
use tokio_postgres::NoTls;

const README: &str = include_str!("../README.md");
/// The users in the statements of the README.
const APP: &str = "app";
const SHOP: &str = "shop";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rights_of_the_readme_are_enough_and_each_is_needed() {
    let Some(server) = server_with_tables() else { return };
    server.sql(&grants(APP).join("\n")).unwrap();
    let setup = Settings::from_url(server.url()).unwrap().setup_sql();
    for grant in grants(APP) {
        let quoted =
            grant.replace("tenure.", "\"tenure\".").replace("SCHEMA tenure", "SCHEMA \"tenure\"");
        assert!(setup.contains(&format!("-- {quoted}\n")), "{quoted}");
    }
    let engine = engine(&server, APP).await.unwrap();
    let mut round = 0;
    use_everything(&engine, round).await.unwrap();
    let rights: Vec<_> = grants(APP).iter().flat_map(|grant| single(grant)).collect();
    assert!(rights.len() > 10, "{rights:?}");
    for right in rights {
        round += 1;
        server.sql(&format!("REVOKE {right} FROM {APP}")).unwrap();
        let error = use_everything(&engine, round).await.expect_err(&right);
        assert_eq!(error.kind(), ErrorKind::Rejected, "{right}: {error}");
        assert!(error.to_string().contains("tenure setup --dry-run"), "{right}: {error}");
        server.sql(&format!("GRANT {right} TO {APP}")).unwrap();
    }
    round += 1;
    use_everything(&engine, round).await.unwrap();
    // The first client after a promotion begins the quarantine.
    server.sql("UPDATE tenure.meta SET timeline = timeline - 1").unwrap();
    engine.line(&Key::new("a").unwrap()).await.unwrap();
    assert_eq!(server.sql("SELECT serve_from_us > 0 FROM tenure.meta").unwrap(), "t");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_another_part_may_only_hold_lines_in_transactions() {
    let Some(server) = server_with_tables() else { return };
    server.sql(&grants(SHOP).join("\n")).unwrap();
    let locks = tenure_postgres::connect(server.url()).await.unwrap();
    let guard = locks.mutex("a").lock().await.unwrap();
    let connected = tokio_postgres::connect(&url(&server, SHOP), NoTls).await;
    let (mut client, connection) = connected.unwrap();
    tokio::spawn(async move {
        let _ = connection.await; // The client gets the error, too.
    });
    let transaction = client.transaction().await.unwrap();
    guard.hold_in(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    for right in grants(SHOP).iter().flat_map(|grant| single(grant)) {
        server.sql(&format!("REVOKE {right} FROM {SHOP}")).unwrap();
        let transaction = client.transaction().await.unwrap();
        let error = guard.hold_in(&transaction).await.expect_err(&right);
        assert_eq!(error.kind(), ErrorKind::Rejected, "{right}: {error}");
        transaction.rollback().await.unwrap();
        server.sql(&format!("GRANT {right} TO {SHOP}")).unwrap();
    }
    for forbidden in ["UPDATE tenure.line SET holder = 1", "DELETE FROM tenure.line"] {
        assert!(client.batch_execute(forbidden).await.is_err(), "{forbidden}");
    }
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_make_no_schema_is_refused_with_the_way_out() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Server::start().unwrap();
    server.sql(&format!("CREATE ROLE {APP} LOGIN")).unwrap();
    let error = engine(&server, APP).await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected);
    assert!(error.to_string().contains("GRANT CREATE ON DATABASE"), "{error}");
    assert!(error.to_string().contains("tenure setup --dry-run"), "{error}");
    server.sql(&format!("GRANT CREATE ON DATABASE postgres TO {APP}")).unwrap();
    use_everything(&engine(&server, APP).await.unwrap(), 0).await.unwrap();
    // The SQL of the tables may be executed again, and changes nothing.
    let settings = Settings::from_url(server.url()).unwrap();
    let table = "SELECT * FROM tenure.meta";
    let before = server.sql(table).unwrap();
    server.sql(&settings.setup_sql()).unwrap();
    assert_eq!(server.sql(table).unwrap(), before);
}

/// A server whose administrator has made the tables.
fn server_with_tables() -> Option<Server> {
    if !have(&[POSTGRES]) {
        return None;
    }
    let server = Server::start().unwrap();
    let settings = Settings::from_url(server.url()).unwrap();
    server.sql(&settings.setup_sql()).unwrap();
    for user in [APP, SHOP] {
        server.sql(&format!("CREATE ROLE {user} LOGIN")).unwrap();
    }
    Some(server)
}

/// The statements of the README that give rights to this user.
fn grants(user: &str) -> Vec<&'static str> {
    let end = format!(" TO {user};");
    let lines = README.lines().map(str::trim);
    let grants: Vec<_> =
        lines.filter(|line| line.starts_with("GRANT ") && line.ends_with(&end)).collect();
    // `GRANT CREATE ON DATABASE` is the other way.
    grants.into_iter().filter(|grant| !grant.contains("DATABASE")).collect()
}

/// The single rights of a statement: `SELECT ON tenure.line`.
fn single(grant: &str) -> Vec<String> {
    let grant = grant.strip_prefix("GRANT ").unwrap();
    let (rights, rest) = grant.split_once(" ON ").unwrap();
    let (tables, _) = rest.split_once(" TO ").unwrap();
    // A comma between parentheses separates columns.
    let rights = rights.replace(", ", "\n").replace("(key\nholder)", "(key, holder)");
    let all = rights
        .lines()
        .flat_map(|right| tables.split(", ").map(move |table| format!("{right} ON {table}")));
    all.collect()
}

fn url(server: &Server, user: &str) -> String {
    format!("postgres://{user}@127.0.0.1:{}/postgres", server.port())
}

async fn engine(server: &Server, user: &str) -> Result<OnRuntime<RecordEngine<PostgresStore>>> {
    let host: Arc<dyn Runtime> = Arc::new(BackgroundRuntime::for_drivers());
    tenure_postgres::engine(&url(server, user), host).await
}

/// Executes every statement of the engine but that of the quarantine.
async fn use_everything(engine: &OnRuntime<RecordEngine<PostgresStore>>, round: u64) -> Result<()> {
    let key = Key::new(format!("round {round}"))?;
    // The longest ttl so far.
    let ttl = Duration::from_secs(61 + round);
    let holder = Ticket { ttl, ..Ticket::new(key.clone(), Share::WHOLE) };
    let waiter = Ticket { id: tenure_core::TicketId::fresh(), ..holder.clone() };
    engine.join(&holder, WaitMode::Wait).await?;
    engine.join(&waiter, WaitMode::Wait).await?;
    engine.renew(&holder).await?;
    engine.leave(&holder, LeaveMode::Now).await?;
    engine.line(&key).await?;
    engine.keys("").await?;
    engine.leave(&waiter, LeaveMode::Now).await?;
    let store = engine.inner().store();
    let window = Window { per: Duration::from_secs(60), limit: None };
    for _ in 0..2 {
        for (by, window) in [(0, None), (1, None), (1, Some(window))] {
            assert!(store.add(&key, by, window).await?.allowed);
        }
    }
    store.swap(&key, "", "a").await?;
    store.swap(&key, "a", "b").await?;
    store.sweep(Duration::from_secs(3600)).await
}
