//! The client library's own lock leaves its node behind where this engine's does not.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::poll;
use zookeeper_client::{Acls, CreateMode, LockOptions, LockPrefix};

use super::stage::{connect, operator, play, soon, tickets, until_line};

#[test]
fn the_lock_of_the_client_leaves_its_node_behind_when_it_is_dropped_and_ours_does_not() {
    play(1, async |ensemble| {
        let operator = operator(&ensemble).await;
        let open = CreateMode::Persistent.with_acls(Acls::anyone_all());
        operator.create("/theirs", b"", &open).await.unwrap();
        {
            // Polled once: the create is on its way, and no caller waits for it any more.
            let prefix = LockPrefix::new_curator("/theirs", "latch").unwrap();
            let mut locking =
                pin!(operator.lock(prefix, b"", LockOptions::new(Acls::anyone_all())));
            assert!(poll!(locking.as_mut()).is_pending());
        }
        let locks = connect(&ensemble).await;
        locks.mutex("warm").lock().await.unwrap().release().await.unwrap();
        for _ in 0..20 {
            let locking = pin!(async { locks.mutex("ours").lock().await.map(drop) });
            let pause = pin!(tokio::time::sleep(Duration::from_micros(300)));
            match select(locking, pause).await {
                Either::Left(_) | Either::Right(_) => {}
            }
        }
        soon("what was dropped is given back", locks.flush()).await;
        until_line(&locks, "ours", 0).await;
        assert_eq!(tickets(&operator).await, Vec::<String>::new());
        let theirs = operator.list_children("/theirs").await.unwrap();
        // Should this fail, the client was mended: good news for its users.
        assert_eq!(theirs.len(), 1, "{theirs:?}");
    });
}
