//! Many concurrent writers: the accepted tokens never decrease.

use std::sync::atomic::{AtomicU64, Ordering};

use tenure_fence_redis::FencedScript;

use super::*;

const THREADS: u64 = 8;
const WRITES: u64 = 300;

/// Returns a pseudo-random number (splitmix64).
fn shuffled(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[test]
fn accepted_writes_never_go_back() {
    let Some(server) = Server::start(&[]) else { return };
    let (fence, log) = (
        Fence::new("race").unwrap(),
        FencedScript::new("return redis.call('RPUSH', KEYS[1], ARGV[1])").unwrap(),
    );
    let (accepted, highest) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (server, fence, log) = (&server, &fence, &log);
            let (accepted, highest) = (&accepted, &highest);
            scope.spawn(move || {
                block_on(async move {
                    let mut conn = server.connect().await;
                    for write in 0..WRITES {
                        // Tokens mostly rise, and are often late.
                        let token = 1 + write * 4 + shuffled(thread << 32 | write) % 64;
                        let listed =
                            fence.run::<u64>(&mut conn, log, "log", token, numbered(token)).await;
                        match listed {
                            Ok(_) => accepted.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                let stale = Stale::of(&error).expect("stale, or done");
                                assert!(stale.token == token && stale.newest > token);
                                continue;
                            }
                        };
                        highest.fetch_max(token, Ordering::Relaxed);
                        match fence.set(&mut conn, "value", token, numbered(token)).await {
                            Ok(()) => (),
                            Err(error) => assert!(Stale::of(&error).is_some(), "{error:?}"),
                        }
                    }
                });
            });
        }
    });
    block_on(async {
        let mut conn = server.connect().await;
        let list = redis::cmd("LRANGE").arg("log").arg(0).arg(-1).clone();
        let list: Vec<u64> = list.query_async(&mut conn).await.unwrap();
        assert_eq!(list.len() as u64, accepted.into_inner());
        assert!(list.is_sorted(), "an older token wrote after a newer one");
        let value: u64 = redis::cmd("GET").arg("value").query_async(&mut conn).await.unwrap();
        let seen: u64 = redis::cmd("GET").arg(fence.key()).query_async(&mut conn).await.unwrap();
        assert_eq!((value, seen), (highest.load(Ordering::Relaxed), highest.into_inner()));
    });
}
