//! Servers that are full, read-only, gone or damaged: a refused write changes nothing.

use tenure_fence_redis::FencedScript;

use super::*;

#[test]
fn a_fence_key_that_is_not_a_token_refuses_every_write() {
    Bench::run(async |mut bench| {
        let key = bench.fence.key().to_owned();
        let garbage = [
            "abc",
            "",
            "-5",
            "1e3",
            "0x10",
            " 1",
            "1 ",
            "1.5",
            "nan",
            "9007199254740992",
            "99999999999999999999",
        ];
        for value in garbage {
            bench.ask::<()>(&["SET", &key, value]).await;
            let Bench { fence, conn, .. } = &mut bench;
            assert_failed(fence.claim(conn, numbered(NUMBER_MAX)).await, ErrorKind::Rejected, &key);
            assert_failed(
                fence.set(conn, "k", "v", numbered(NUMBER_MAX)).await,
                ErrorKind::Rejected,
                &key,
            );
            assert_eq!(bench.ask::<String>(&["GET", &key]).await, value);
        }
        bench.ask::<()>(&["DEL", &key]).await;
        bench.ask::<()>(&["RPUSH", &key, "1"]).await;
        let Bench { fence, conn, .. } = &mut bench;
        assert_failed(fence.claim(conn, numbered(1)).await, ErrorKind::Rejected, &key);
        assert_failed(
            fence.delete(conn, "k", numbered(1)).await,
            ErrorKind::Rejected,
            "is not a token",
        );
        assert_eq!(bench.ask::<u64>(&["DBSIZE"]).await, 1);
    });
}

#[test]
fn a_full_server_refuses_and_nothing_is_changed() {
    Bench::run(async |mut bench| {
        bench.fence.claim(&mut bench.conn, numbered(1)).await.unwrap();
        bench.fence.set(&mut bench.conn, "k", "old", numbered(1)).await.unwrap();
        bench.ask::<()>(&["CONFIG", "SET", "maxmemory", "1"]).await;
        let grow = FencedScript::new("return redis.call('SET', KEYS[1], 'new')").unwrap();
        let key = bench.fence.key().to_owned();
        for fence in [bench.fence.clone(), bench.fence.clone().forget_after(fence_life()).unwrap()]
        {
            for token in [1, 2] {
                let conn = &mut bench.conn;
                assert_failed(
                    fence.set(conn, "k", "new", numbered(token)).await,
                    ErrorKind::Rejected,
                    "OOM",
                );
                let answer = fence.run::<()>(conn, &grow, "k", None::<&str>, numbered(token)).await;
                assert_failed(answer, ErrorKind::Rejected, "OOM");
                assert_failed(fence.claim(conn, numbered(token)).await, ErrorKind::Rejected, "OOM");
            }
        }
        assert_eq!(bench.ask::<String>(&["GET", "k"]).await, "old");
        assert_eq!(bench.newest().await, Some(1));
        assert_eq!(bench.ask::<i64>(&["PTTL", &key]).await, -1);

        // A deletion needs no memory once the token was claimed.
        assert!(bench.fence.delete(&mut bench.conn, "k", numbered(1)).await.unwrap());
    });
}

fn fence_life() -> std::time::Duration {
    std::time::Duration::from_secs(3600)
}

#[test]
fn a_replica_refuses() {
    Bench::run(async |mut bench| {
        bench.fence.claim(&mut bench.conn, numbered(1)).await.unwrap();
        let port = bench.server.port().to_string();
        bench.ask::<()>(&["REPLICAOF", "127.0.0.1", &port]).await;
        let Bench { fence, conn, .. } = &mut bench;
        for token in [1, 2] {
            for answer in [
                fence.claim(conn, numbered(token)).await,
                fence.set(conn, "k", "v", numbered(token)).await,
                fence.delete(conn, "k", numbered(token)).await.map(drop),
            ] {
                assert_failed(answer, ErrorKind::Unavailable, "read-only replica");
            }
        }
        bench.ask::<()>(&["REPLICAOF", "NO", "ONE"]).await;
        assert_eq!(bench.newest().await, Some(1));
    });
}

#[test]
fn the_documented_rights_are_enough_and_necessary() {
    Bench::run(async |mut bench| {
        let rules = [
            "ACL",
            "SETUSER",
            "clerk",
            "on",
            ">s3cret",
            "-@all",
            "+eval",
            "+evalsha",
            "+get",
            "+set",
            "+pexpire",
            "+del",
            "~tenure:fence:*",
            "~mine:*",
        ];
        bench.ask::<()>(&rules).await;
        let url = format!("redis://clerk:s3cret@127.0.0.1:{}", bench.server.port());
        let mut clerk = bench.server.connect_by(&url).await;
        let fence = bench.fence.clone().forget_after(fence_life()).unwrap();
        for token in [1, 1, 2] {
            fence.claim(&mut clerk, numbered(token)).await.unwrap();
            fence.set(&mut clerk, "mine:k", "v", numbered(token)).await.unwrap();
            fence.delete(&mut clerk, "mine:k", numbered(token)).await.unwrap();
        }
        let answer = fence.set(&mut clerk, "yours:k", "v", numbered(2)).await;
        assert_failed(answer, ErrorKind::Rejected, "NOPERM");
        bench.ask::<()>(&["ACL", "SETUSER", "clerk", "resetkeys", "~mine:*"]).await;
        assert_failed(
            fence.set(&mut clerk, "mine:k", "v", numbered(2)).await,
            ErrorKind::Rejected,
            "NOPERM",
        );
    });
}

#[test]
fn a_server_that_is_gone_leaves_the_outcome_unknown() {
    Bench::run(async |bench| {
        let Bench { server, mut conn, fence } = bench;
        fence.claim(&mut conn, numbered(1)).await.unwrap();
        drop(server);
        let answer = fence.set(&mut conn, "k", "v", numbered(1)).await;
        assert_failed(answer, ErrorKind::Unavailable, "may be done or not");
    });
}

#[test]
fn a_missing_password_is_refused_and_no_error_contains_one() {
    let Some(server) = Server::start(&["--requirepass", "s3cret"]) else { return };
    block_on(async {
        let fence = Fence::new("invoices").unwrap();
        let mut stranger = server.connect().await;
        assert_failed(fence.claim(&mut stranger, numbered(1)).await, ErrorKind::Rejected, "NOAUTH");
        let url = format!("redis://:s3cret@127.0.0.1:{}", server.port());
        let mut conn = server.connect_by(&url).await;
        fence.claim(&mut conn, numbered(1)).await.unwrap();
        drop(server);
        let error = fence.claim(&mut conn, numbered(1)).await.unwrap_err();
        assert!(!format!("{error} {error:?}").contains("s3cret"), "{error:?}");
    });
}
