//! A server that answers, and refuses: it is full, a replica, busy, loading, or has no disk.

use std::time::{Duration, Instant};

use tenure_core::{Engine as _, ErrorKind};
use tenure_redis::RedisStore;
use tenure_servers::redis::{Server, Setup};

use super::stage::{LONG, all_keys, ask, assert_refused, connect, play, soon, until, until_line};

#[test]
fn a_full_server_takes_no_new_tickets_and_serves_those_it_has() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        assert!(locks.guarantees().survives.full_memory);
        let alone = locks.mutex("alone").ttl(LONG).lock().await.unwrap();
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let waiter = tokio::spawn({
            let mutex = other.mutex("a").ttl(LONG);
            async move { mutex.lock().await }
        });
        until_line(&locks, "a", 2).await;
        let mut client = server.client().unwrap();
        let before = all_keys(&mut client);
        ask(&server, "CONFIG SET maxmemory 1mb");

        for key in ["a", "new"] {
            let refused = locks.mutex(key).ttl(LONG).lock().await;
            assert_refused(refused, ErrorKind::Rejected, &["no memory left", "127.0.0.1", "OOM"]);
        }
        assert_refused(locks.sequence("n").next().await, ErrorKind::Rejected, &["no memory left"]);
        let counter = locks.counter("n").window(LONG);
        assert_refused(counter.add(1).await, ErrorKind::Rejected, &["no memory left"]);
        assert_eq!(all_keys(&mut client), before);
        assert_eq!(locks.line("a").await.unwrap().len(), 2);

        alone.extend().await.unwrap();
        alone.set_note("still there").await.unwrap();
        guard.extend().await.unwrap();
        let token = guard.token();
        guard.release().await.unwrap();
        let next = soon("the waiter is served", waiter).await.unwrap().unwrap();
        assert!(next.token() > token);
        next.extend().await.unwrap();
        next.release().await.unwrap();
        locks.break_ticket("alone", alone.id()).await.unwrap();
        soon("it is told", alone.lost()).await;
        drop(alone);
        locks.flush().await;
        assert!(locks.keys("").await.unwrap().is_empty());

        ask(&server, "CONFIG SET maxmemory 0");
        assert!(locks.mutex("a").lock().await.unwrap().token() > token);
    });
}

#[test]
fn a_server_that_becomes_a_replica_says_so_until_it_is_none() {
    play(async || {
        let (server, gone) = (Server::start().unwrap(), Server::start().unwrap());
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        gone.kill().unwrap();
        ask(&server, &format!("REPLICAOF 127.0.0.1 {}", gone.port()));
        for _ in 0..2 {
            let refused = locks.mutex("b").ttl(LONG).try_lock().await;
            assert_refused(refused, ErrorKind::Unavailable, &["is a replica"]);
        }
        assert_refused(guard.extend().await, ErrorKind::Unavailable, &["is a replica"]);
        guard.check().unwrap();
        let late = tenure_redis::connect(server.url()).await;
        assert_refused(late, ErrorKind::Invalid, &["is a replica", "127.0.0.1"]);
        ask(&server, "REPLICAOF NO ONE");
        // A connection that was refused is tried again after a pause.
        until("it is renewed again", async || guard.extend().await.is_ok()).await;
        let next = locks.mutex("b").lock().await.unwrap();
        assert!(next.token() > guard.token());
    });
}

#[test]
fn a_server_that_is_loading_is_waited_for() {
    play(async || {
        // Each key takes it a while.
        let server = Setup::new().appendonly().setting(&["key-load-delay", "100"]).start().unwrap();
        let locks = connect(server.url()).await;
        let beat = Duration::from_millis(200);
        let guard = locks.mutex("a").ttl(LONG).renew_every(beat).lock().await.unwrap();
        let fill = "for i = 1, 20000 do redis.call('SET', 'k' .. i, i) end";
        server.command(&["EVAL", fill, "0"]).unwrap();
        server.kill().unwrap();
        std::thread::scope(|scope| {
            let restarted = scope.spawn(|| server.restart());
            let mut said = Vec::new();
            let began = Instant::now();
            while !restarted.is_finished() {
                assert!(began.elapsed() < super::stage::PATIENCE);
                let opened = tenure_core::blocking::block_on(tenure_redis::connect(server.url()));
                if let Err(error) = opened {
                    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                    said.push(error.to_string());
                }
            }
            restarted.join().unwrap().unwrap();
            assert!(said.iter().any(|said| said.contains("still loading")), "{said:?}");
        });
        guard.check().unwrap();
        until("it is renewed again", async || guard.extend().await.is_ok()).await;
        guard.release().await.unwrap();
    });
}

#[test]
fn a_server_that_runs_a_strangers_script_is_waited_for() {
    play(async || {
        let server = Setup::new().setting(&["busy-reply-threshold", "1"]).start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let stranger = tokio::task::spawn_blocking({
            let mut client = server.client().unwrap();
            move || client.command(&["EVAL", "while true do end", "0"])
        });
        until("it is busy", async || {
            server.command(&["PING"]).is_err_and(|error| error.contains("BUSY"))
        })
        .await;
        let busy = locks.mutex("b").ttl(LONG).try_lock().await;
        assert_refused(busy, ErrorKind::Unavailable, &["is busy with a script", "127.0.0.1"]);
        assert_refused(guard.extend().await, ErrorKind::Unavailable, &["is busy"]);
        let opened = RedisStore::open(&server.url()).await.map(|store| store.guarantees());
        assert_refused(opened, ErrorKind::Unavailable, &["is busy"]);
        guard.check().unwrap();
        ask(&server, "SCRIPT KILL");
        assert!(stranger.await.unwrap().is_err());
        guard.extend().await.unwrap();
        locks.mutex("b").lock().await.unwrap().release().await.unwrap();
        guard.release().await.unwrap();
    });
}

#[test]
fn a_server_that_cannot_write_to_its_disk_says_so() {
    play(async || {
        let server = Server::start().unwrap();
        let locks = connect(server.url()).await;
        let guard = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        // Where its file belongs, there is a folder.
        let obstacle = server.folder().join("dump.rdb");
        std::fs::create_dir(&obstacle).unwrap();
        server.command(&["CONFIG", "SET", "save", "3600 1"]).unwrap();
        let saved_as = async |wanted: &str| {
            ask(&server, "BGSAVE");
            until("it has tried to save", async || {
                let info = ask(&server, "INFO persistence");
                info.field("rdb_bgsave_in_progress").unwrap() == "0"
                    && info.field("rdb_last_bgsave_status").unwrap() == wanted
            })
            .await;
        };
        saved_as("err").await;
        for key in ["a", "b"] {
            let refused = locks.mutex(key).ttl(LONG).lock().await;
            assert_refused(
                refused,
                ErrorKind::Rejected,
                &["cannot write its data to disk", "127.0.0.1"],
            );
        }
        assert_refused(
            guard.extend().await,
            ErrorKind::Rejected,
            &["cannot write its data to disk"],
        );
        guard.check().unwrap();
        std::fs::remove_dir(&obstacle).unwrap();
        saved_as("ok").await;
        guard.extend().await.unwrap();
        guard.release().await.unwrap();
    });
}
