//! Servers that are behind the others, that may only read, and that come back with older data.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tenure_core::{ErrorKind, Loss};
use tenure_servers::zookeeper::Server;

use super::stage::{TTL, at_last, connect, play, soon, until_line};

/// The folder of a server's data, in the server's folder.
const KEPT: &str = "version-2";

/// The pause of a frozen server: shorter than the time after which the other servers drop it.
const STILL: Duration = Duration::from_secs(1);

#[test]
fn who_asks_a_server_that_was_behind_sees_the_line_as_it_is() {
    play(3, async |ensemble| {
        for round in 0..5 {
            let slow = ensemble.follower().unwrap();
            let (key, here) =
                (format!("k{round}"), format!("zookeeper://127.0.0.1:{}", slow.port()));
            let others: Vec<_> =
                ensemble.servers().iter().filter(|it| it.port() != slow.port()).collect();
            let there: Vec<_> =
                others.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
            let there = format!("zookeeper://{}", there.join(","));
            let far = at_last("it connects", async || tenure_zookeeper::connect(&here).await).await;
            let near =
                at_last("it connects", async || tenure_zookeeper::connect(&there).await).await;
            let first = far.mutex(&key).ttl(TTL * 10).lock().await.unwrap();
            first.release().await.unwrap();
            slow.freeze().unwrap();
            for _ in 0..20 {
                near.mutex(&key).ttl(TTL * 10).lock().await.unwrap().release().await.unwrap();
            }
            let held = near.mutex(&key).ttl(TTL * 10).lock().await.unwrap();
            tokio::time::sleep(STILL).await;
            slow.thaw().unwrap();
            // All of that is on its way to it, and so is this.
            let tried = at_last("it is answered", async || far.mutex(&key).try_lock().await).await;
            assert!(tried.is_none(), "it is held");
            let line = at_last("it is answered", async || far.line(&key).await).await;
            assert_eq!(line.iter().map(|ticket| ticket.id).collect::<Vec<_>>(), [held.id()]);
            let token = held.token();
            held.release().await.unwrap();
            let next = at_last("it locks", async || far.mutex(&key).lock().await).await;
            assert!(next.token() > token);
            next.release().await.unwrap();
        }
    });
}

#[test]
fn a_server_that_may_only_read_gives_no_locks() {
    play(3, async |ensemble| {
        let locks = connect(&ensemble).await;
        let guard = locks.mutex("k").ttl(TTL).lock().await.unwrap();
        let (gone, alone) = {
            let alone = ensemble.follower().unwrap();
            let gone: Vec<&Server> =
                ensemble.servers().iter().filter(|it| it.port() != alone.port()).collect();
            (gone, alone)
        };
        for server in &gone {
            server.kill().unwrap();
        }
        soon("it serves those who only read", async {
            while !alone.ask("srvr").is_ok_and(|said| said.contains("read-only")) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        let loss = soon("the holder is told", guard.lost()).await;
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
        let url = format!("zookeeper://127.0.0.1:{}", alone.port());
        let refused = tenure_zookeeper::connect(&url).await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
        let refused = locks.mutex("k").try_lock().await.map(drop).unwrap_err();
        assert!(refused.is_retryable(), "{refused}");
        for server in &gone {
            server.begin().unwrap();
        }
        let token = guard.token();
        let next = at_last("it locks again", async || locks.mutex("k").ttl(TTL).lock().await).await;
        assert!(next.token() > token);
    });
}

#[test]
fn older_data_costs_holders_their_locks_and_is_refused_by_who_lived_through_it() {
    play(1, async |ensemble| {
        let server = &ensemble.servers()[0];
        let (locks, kept) = (connect(&ensemble).await, server.folder().join("kept"));
        locks.mutex("a").ttl(TTL).lock().await.unwrap().release().await.unwrap();
        server.kill().unwrap();
        copy(&server.folder().join(KEPT), &kept);
        server.restart().unwrap();
        // The copied data does not have these locks.
        for _ in 0..20 {
            let mutex = locks.mutex("a").ttl(TTL);
            let guard = at_last("it locks", async || mutex.lock().await).await;
            guard.release().await.unwrap();
        }
        let guard = locks.mutex("a").ttl(TTL).lock().await.unwrap();
        until_line(&locks, "a", 1).await;
        server.kill().unwrap();
        fs::remove_dir_all(server.folder().join(KEPT)).unwrap();
        copy(&kept, &server.folder().join(KEPT));
        server.restart().unwrap();
        let loss = soon("the holder is told", guard.lost()).await;
        assert!(matches!(loss, Loss::Unreachable | Loss::Expired | Loss::SessionGone), "{loss}");
        let refused = soon("it is refused", async {
            loop {
                match locks.mutex("b").ttl(TTL).lock().await {
                    Err(error) if error.kind() == ErrorKind::Rejected => return error,
                    Err(_) => {}
                    Ok(next) => assert!(next.token() > guard.token(), "a number is given again"),
                }
            }
        });
        let sentence = refused.await.to_string();
        assert!(sentence.contains("went back to an older transaction"), "{sentence}");
    });
}

/// Copies the files of a folder that has no folders.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}
