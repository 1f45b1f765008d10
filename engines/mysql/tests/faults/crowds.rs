//! Many locks of one client.

use futures_util::{StreamExt as _, stream};
use tenure_core::MutexGuard;
use tenure_servers::mariadb::Server;

use super::stage::{LONG, again, connect, number, play, soon, until_line};

/// Calls of procedures, each of which is a verb or a part of one.
const CALLS: &str = "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'COM_CALL_PROCEDURE'";

#[test]
fn the_renewals_of_many_locks_of_one_client_share_commits() {
    play(async || {
        const LOCKS: usize = 1000;
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let taken = stream::iter(0..LOCKS).map(|number| {
            let mutex = locks.mutex(format!("lock {number}")).ttl(LONG);
            async move { again(|| mutex.lock()).await }
        });
        let guards: Vec<_> = taken.buffer_unordered(200).collect().await;
        // Another client waits for the first lock, so its record has to be read and written.
        let other = connect(server.url()).await;
        let mutex = other.mutex("lock 0").ttl(LONG);
        let waiter = tokio::spawn(async move { again(|| mutex.lock()).await });
        until_line(&locks, "lock 0", 2).await;
        let before = number(&server, CALLS);
        let renewed = stream::iter(&guards).map(MutexGuard::extend);
        renewed.buffer_unordered(200).for_each(async |renewed| renewed.unwrap()).await;
        let calls = number(&server, CALLS) - before;
        let few = i64::try_from(LOCKS / 4).unwrap();
        assert!(calls < few, "{calls} calls");
        drop(guards);
        soon("the waiter is served", waiter).await.unwrap().release().await.unwrap();
        soon("all are given back", locks.flush()).await;
        assert!(locks.keys("").await.unwrap().is_empty());
    });
}
