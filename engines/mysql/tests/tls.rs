//! TLS: a server is reached only if its certificate is trusted, and has its name.
#![cfg(unix)]

use tenure_core::ErrorKind;
use tenure_servers::have;
use tenure_servers::mariadb::{MARIADB, Server, Setup};

fn server() -> Option<Server> {
    have(&[MARIADB]).then(|| {
        let server = Setup::new().limited_user("locks", "se/cret").tls().start();
        server.expect("the server starts")
    })
}

#[tokio::test]
async fn a_lock_is_held_and_handed_over_by_tls() {
    let Some(server) = server() else { return };
    server.sql("ALTER USER locks REQUIRE SSL").unwrap();
    let (one, two) = (
        tenure_mysql::connect(server.url()).await.unwrap(),
        tenure_mysql::connect(server.url()).await.unwrap(),
    );
    let guard = one.mutex("k").lock().await.unwrap();
    let waiting = tokio::spawn(async move { two.mutex("k").lock().await });
    guard.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    let url = server.url();
    let (plain, _) = url.split_once('?').unwrap();
    let refused = tenure_mysql::connect(plain).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
    assert!(refused.to_string().contains("ssl-mode"), "{refused}");
}

#[tokio::test]
async fn a_server_that_accepts_tls_only_says_how_to_ask_for_it() {
    let Some(server) = server() else { return };
    server.sql("SET GLOBAL require_secure_transport = 1").unwrap();
    let url = server.url();
    tenure_mysql::connect(&url).await.unwrap();
    let (plain, _) = url.split_once('?').unwrap();
    let refused = tenure_mysql::connect(plain).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
    // MySQL names the reason. MariaDB says only that access is denied.
    assert!(refused.to_string().contains("ssl-mode"), "{refused}");
}

#[tokio::test]
async fn a_server_that_cannot_be_trusted_gets_no_password() {
    let Some(server) = server() else { return };
    let url = server.url();
    let (plain, options) = url.split_once('?').unwrap();
    // The known authorities have not signed it.
    let strange = format!("{plain}?ssl-mode=VERIFY_IDENTITY");
    let refused = tenure_mysql::connect(strange).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected, "{refused}");
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let named = format!("{}?{options}", plain.replace("127.0.0.1", "127.0.0.2"));
    let refused = tenure_mysql::connect(named).await.unwrap_err();
    assert!(!refused.to_string().contains("se/cret"), "{refused}");
}

#[tokio::test]
async fn a_server_without_tls_is_named() {
    if !have(&[MARIADB]) {
        return;
    }
    let server = Setup::new().limited_user("locks", "se/cret").start().unwrap();
    let url = format!("{}?ssl-mode=VERIFY_IDENTITY", server.url());
    let refused = tenure_mysql::connect(url).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Rejected);
    assert!(refused.to_string().contains("does not speak TLS"), "{refused}");
    assert!(!refused.to_string().contains("se/cret"), "{refused}");
}
