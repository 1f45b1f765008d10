//! TLS: a server is reached only if its certificate is trusted, and has its name.
#![cfg(unix)]

use tenure_core::ErrorKind;
use tenure_servers::postgres::{POSTGRES, Setup};
use tenure_servers::{have, postgres::Server};

fn server() -> Option<Server> {
    have(&[POSTGRES]).then(|| {
        let server = Setup::new().limited_user("locks", "se/cret").tls().start();
        server.expect("the server starts")
    })
}

#[tokio::test]
async fn a_lock_is_held_and_handed_over_by_tls() {
    let Some(server) = server() else { return };
    let (one, two) = (
        tenure_postgres::connect(server.url()).await.unwrap(),
        tenure_postgres::connect(server.url()).await.unwrap(),
    );
    let guard = one.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(async move { two.mutex("k").lock().await });
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let encrypted = server.sql(
        "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE usename = 'locks'",
    );
    assert_eq!(encrypted.unwrap().trim(), "t");
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_gets_no_password() {
    let Some(server) = server() else { return };
    let url = server.url();
    let (plain, options) = url.split_once('?').unwrap();
    let refused = tenure_postgres::connect(plain).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
    assert!(refused.to_string().contains("sslmode"), "{refused}");
    // The authorities of the system have not signed it.
    let strange = format!("{plain}?sslmode=verify-full");
    let refused = tenure_postgres::connect(strange).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let named = format!("{}?{options}", plain.replace("127.0.0.1", "127.0.0.2"));
    let refused = tenure_postgres::connect(named).await.unwrap_err();
    assert!(!refused.to_string().contains("se/cret"), "{refused}");
}

#[tokio::test]
async fn a_server_without_tls_is_named() {
    if !have(&[POSTGRES]) {
        return;
    }
    let server = Setup::new().limited_user("locks", "se/cret").start().unwrap();
    let url = format!("{}?sslmode=verify-full", server.url());
    let refused = tenure_postgres::connect(url).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected);
    assert!(refused.to_string().contains("does not speak TLS"), "{refused}");
    assert!(!refused.to_string().contains("se/cret"), "{refused}");
}
