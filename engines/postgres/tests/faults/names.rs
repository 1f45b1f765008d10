//! Two processes of one host: their owner has one name.

use std::time::Duration;

use tenure_servers::postgres::Server;

use super::stage::{LONG, connect, play, soon, until_line};

const TTL: Duration = Duration::from_secs(2);

#[test]
fn a_process_of_the_same_name_neither_renews_nor_releases_the_lock_of_another() {
    play(async || {
        let server = Server::start().unwrap();
        let one = connect(server.url()).await.with_owner("host:app").unwrap();
        let two = connect(server.url()).await.with_owner("host:app").unwrap();
        let guard = one.mutex("a").ttl(LONG).lock().await.unwrap();
        assert!(two.mutex("a").ttl(LONG).try_lock().await.unwrap().is_none());
        let waits = tokio::spawn({
            let mutex = two.mutex("a").ttl(LONG);
            async move { mutex.lock().await.map(drop) }
        });
        until_line(&one, "a", 2).await;
        waits.abort();
        until_line(&one, "a", 1).await;
        two.flush().await;
        guard.extend().await.expect("the other has released its own ticket alone");
        guard.release().await.unwrap();

        let guard = one.mutex("b").ttl(TTL).manual_renewal().lock().await.unwrap();
        let renews = two.mutex("b").ttl(TTL).renew_every(TTL / 8);
        let next = soon("it is served, though it has renewed itself", renews.lock()).await.unwrap();
        guard.check().expect_err("the other has renewed its own ticket alone");
        guard.release().await.expect_err("it is lost");
        next.extend().await.unwrap();
    });
}
