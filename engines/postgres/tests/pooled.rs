//! A pooler is noticed: waiters poll behind it, unless the server itself is named for
//! notifications.
#![cfg(unix)]

use tenure_core::Locks;
use tenure_servers::have;
use tenure_servers::postgres::{Mode, PGBOUNCER, POSTGRES, Pooler, Server, Setup};

fn pooled() -> Option<(Server, Pooler)> {
    have(&[POSTGRES, PGBOUNCER]).then(|| {
        let server = Setup::new().limited_user("locks", "se/cret").start().unwrap();
        let pooler = Pooler::before(&server, Mode::Transaction).unwrap();
        (server, pooler)
    })
}

fn with(url: &str, option: &str) -> String {
    let between = if url.contains('?') { '&' } else { '?' };
    format!("{url}{between}{option}")
}

async fn hand_over(one: Locks, two: Locks) {
    let guard = one.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(async move { two.mutex("k").lock().await });
    while one.line("k").await.unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn behind_a_pooler_waiters_poll_and_the_operator_is_told() {
    let Some((_server, pooler)) = pooled() else { return };
    let connect = async || tenure_postgres::connect(pooler.url()).await.unwrap();
    let (one, two) = (connect().await, connect().await);
    let guarantees = one.guarantees();
    assert!(!guarantees.push);
    assert!(guarantees.warnings.iter().any(|one| one.contains("pooler")), "{guarantees:?}");
    hand_over(one, two).await;
}

#[tokio::test]
async fn notifications_come_from_the_server_behind_the_pooler() {
    let Some((server, pooler)) = pooled() else { return };
    // The password is for the server: the pooler trusts its users.
    let url = pooler.url().replace("locks@", "locks:se%2Fcret@");
    let url = with(&url, &format!("notify_host=127.0.0.1:{}", server.port()));
    let connect = async || tenure_postgres::connect(&url).await.unwrap();
    let (one, two) = (connect().await, connect().await);
    assert!(one.guarantees().push);
    let guard = one.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(async move { two.mutex("k").lock().await });
    let listeners = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    while server.sql(listeners).unwrap().trim() == "0" {
        tokio::task::yield_now().await;
    }
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_client_that_is_to_poll_opens_no_second_connection() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Setup::new().limited_user("locks", "se/cret").start().unwrap();
    let url = with(&server.url(), "notify=poll");
    let connect = async || tenure_postgres::connect(&url).await.unwrap();
    let (one, two) = (connect().await, connect().await);
    assert!(
        !one.guarantees().push
            && one.guarantees().warnings.iter().all(|one| !one.contains("pooler"))
    );
    hand_over(one, two).await;
    let listened = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    assert_eq!(server.sql(listened).unwrap().trim(), "0");
}
