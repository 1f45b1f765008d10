//! The command on PostgreSQL: its tables, and a hand-over.

use tenure_servers::have;
use tenure_servers::postgres::{POSTGRES, Server};

use crate::kit::Store;
use crate::run::{hands_over, names_the_holder};

const TABLES: &str = "SELECT count(*) FROM pg_tables WHERE schemaname = 'tenure'";

/// Starts a server. `None`, with a message, where there is no PostgreSQL.
fn postgres() -> Option<(Server, Store)> {
    if !have(&[POSTGRES]) {
        return None;
    }
    let server = Server::start().unwrap();
    let store = Store::at(server.url());
    Some((server, store))
}

#[test]
fn the_next_is_served_with_a_higher_token() {
    let Some((_server, store)) = postgres() else { return };
    hands_over(&store);
}

#[test]
fn a_busy_answer_names_the_holder() {
    let Some((_server, store)) = postgres() else { return };
    names_the_holder(&store);
}

#[test]
fn a_setup_makes_the_tables_once() {
    let Some((server, store)) = postgres() else { return };
    for _ in 0..2 {
        let end = store.end(&["setup", "--quiet"]);
        assert_eq!((end.code, end.out.as_str(), end.err.as_str()), (0, "", ""), "{end:?}");
        assert_eq!(server.sql(TABLES).unwrap(), "5");
    }
}

#[test]
fn a_dry_run_prints_sql_that_makes_the_tables_and_connects_to_nothing() {
    let Some((server, store)) = postgres() else { return };
    let sql = store.output(&["setup", "--dry-run"]);
    assert_eq!(server.sql(TABLES).unwrap(), "0");
    server.sql(&sql).unwrap();
    assert_eq!(server.sql(TABLES).unwrap(), "5");
    let nowhere =
        ["--on", "postgres://app:secret@127.0.0.1:1/a?schema=it\"s", "setup", "--dry-run"];
    let sql = store.output(&nowhere);
    assert!(sql.contains("CREATE SCHEMA IF NOT EXISTS \"it\"\"s\""), "{sql}");
    assert!(!sql.contains("secret"), "{sql}");
}
