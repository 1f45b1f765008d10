//! A synchronous standby: a lock counts once the standby has it.
#![cfg(unix)]

use std::sync::Arc;

use tenure_core::{BackgroundRuntime, Engine as _, Key};
use tenure_servers::have;
use tenure_servers::postgres::{POSTGRES, Server, Setup};

/// The backends that wait for the standby.
const WAITS: &str = "FROM pg_stat_activity WHERE usename = 'locks' AND wait_event = 'SyncRep'";

fn server() -> Server {
    Setup::new().limited_user("locks", "se/cret").start().unwrap()
}

#[tokio::test]
async fn a_cancelled_wait_for_the_standby_confirms_no_lock() {
    if !have(&[POSTGRES]) {
        return;
    }
    let primary = server();
    // The tables are there before the standby stands still.
    tenure_postgres::connect(primary.url()).await.unwrap();
    // The engine needs the server's warning, also if the role wants none.
    primary.sql("ALTER ROLE locks SET client_min_messages = error").unwrap();
    let standby = primary.standby(true).unwrap();
    let url = format!("{}?timeout=20s", primary.url());
    let locks = tenure_postgres::connect(url).await.unwrap();
    assert!(locks.guarantees().survives.failover);
    standby.freeze().unwrap();
    let held = {
        let locks = locks.clone();
        tokio::spawn(async move { locks.mutex("k").lock().await })
    };
    // Each cancelled wait is followed by another write, which waits again.
    for _ in 0..3 {
        while primary.sql(&format!("SELECT count(*) {WAITS}")).unwrap().trim() == "0" {
            assert!(!held.is_finished(), "the standby does not have the lock");
            tokio::task::yield_now().await;
        }
        primary.sql(&format!("SELECT pg_cancel_backend(pid) {WAITS}")).unwrap();
    }
    assert!(!held.is_finished(), "the standby does not have the lock");
    standby.thaw().unwrap();
    held.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn the_first_value_of_a_key_waits_for_the_standby() {
    if !have(&[POSTGRES]) {
        return;
    }
    let primary = server();
    tenure_postgres::connect(primary.url()).await.unwrap();
    let standby = primary.standby(true).unwrap();
    primary.sql("ALTER ROLE locks SET synchronous_commit = off").unwrap();
    let host = Arc::new(BackgroundRuntime::for_drivers());
    let url = format!("{}?timeout=20s", primary.url());
    let engine = tenure_postgres::engine(&url, host).await.unwrap();
    standby.freeze().unwrap();
    let swapped =
        tokio::spawn(async move { engine.swap(&Key::new("k").unwrap(), "", "first").await });
    while primary.sql(&format!("SELECT count(*) {WAITS}")).unwrap().trim() == "0" {
        assert!(!swapped.is_finished(), "the standby does not have the value");
        tokio::task::yield_now().await;
    }
    standby.thaw().unwrap();
    assert_eq!(swapped.await.unwrap().unwrap(), "first");
}

#[tokio::test]
async fn an_asynchronous_standby_is_warned_of() {
    if !have(&[POSTGRES]) {
        return;
    }
    let primary = server();
    let _standby = primary.standby(false).unwrap();
    let locks = tenure_postgres::connect(primary.url()).await.unwrap();
    let guarantees = locks.guarantees();
    assert!(!guarantees.survives.failover);
    assert!(guarantees.warnings.iter().any(|one| one.contains("asynchronous")), "{guarantees:?}");
}
