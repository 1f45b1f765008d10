//! The command on MariaDB: its tables, and a hand-over.

use tenure_servers::have;
use tenure_servers::mariadb::{MARIADB, Server};

use crate::kit::Store;
use crate::run::{hands_over, names_the_holder};

const TABLES: &str = "SELECT count(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'locks'";

/// Starts a server. `None`, with a message, where there is no MariaDB.
fn mariadb() -> Option<(Server, Store)> {
    if !have(&[MARIADB]) {
        return None;
    }
    let server = Server::start().unwrap();
    let store = Store::at(server.url());
    Some((server, store))
}

#[test]
fn the_next_is_served_with_a_higher_token() {
    let Some((_server, store)) = mariadb() else { return };
    hands_over(&store);
}

#[test]
fn a_busy_answer_names_the_holder() {
    let Some((_server, store)) = mariadb() else { return };
    names_the_holder(&store);
}

#[test]
fn a_setup_makes_the_tables_once() {
    let Some((server, store)) = mariadb() else { return };
    for _ in 0..2 {
        let end = store.end(&["setup", "--quiet"]);
        assert_eq!((end.code, end.out.as_str(), end.err.as_str()), (0, "", ""), "{end:?}");
        assert_eq!(server.sql(TABLES).unwrap(), "7");
    }
}

#[test]
fn a_dry_run_prints_sql_that_makes_the_tables_and_connects_to_nothing() {
    let Some((server, store)) = mariadb() else { return };
    let sql = store.output(&["setup", "--dry-run"]);
    assert_eq!(server.sql(TABLES).unwrap(), "0");
    for _ in 0..2 {
        server.sql(&format!("USE locks;\n{sql}")).unwrap();
        assert_eq!(server.sql(TABLES).unwrap(), "7");
    }
    let nowhere = ["--on", "mysql://app:secret@127.0.0.1:1/a?prefix=mine_", "setup", "--dry-run"];
    let sql = store.output(&nowhere);
    assert!(sql.contains("CREATE TABLE IF NOT EXISTS `mine_line`"), "{sql}");
    assert!(!sql.contains("secret"), "{sql}");
}
