//! `RedLock` over five servers, some of which keep what cannot be read under a lock's name.

use std::time::Duration;

use tenure_core::{Error, ErrorKind};
use tenure_redis::RedLock;
use tenure_servers::redis::{Masters, Server};

use super::stage::{LONG, assert_refused, head, play, script_calls, soon, until, until_line};

/// Writes a later version's head for the line of this key, and for the queue of its waiters.
fn spoil(server: &Server, key: &str) {
    let head = head(key);
    for name in [&head, &head.replace('{', "{turn.")] {
        server.command(&["SET", name, "1234567\0x and what a later version keeps there"]).unwrap();
    }
}

async fn open(masters: &Masters) -> RedLock {
    RedLock::open(format!("{}?after_restart=trust", masters.url()))
        .await
        .expect("a majority answers")
}

/// Returns the last error of this server, if its last answer was one.
fn last_of(redlock: &RedLock, server: &Server) -> Option<Error> {
    let port = format!(":{}", server.port());
    let answers = redlock.health().answers();
    answers.into_iter().find(|it| it.name.ends_with(&port)).unwrap().last?.err()
}

/// Returns the number of script calls of this server once it grows no more. A majority answers a
/// verb, and the other servers are called as well.
async fn calls_in_the_end(server: &Server) -> u64 {
    let mut calls = script_calls(server);
    until("no more calls come", async || {
        tokio::time::sleep(Duration::from_millis(200)).await;
        std::mem::replace(&mut calls, script_calls(server)) == calls
    })
    .await;
    calls
}

#[test]
fn a_server_whose_line_cannot_be_read_is_like_one_that_is_silent() {
    play(async || {
        let masters = Masters::start(5).unwrap();
        let (one, other) = (open(&masters).await, open(&masters).await);
        // The first server, which is also the first to queue the waiters.
        let spoilt = &masters.servers()[0];
        spoil(spoilt, "a");
        let mutex = one.locks().mutex("a").ttl(LONG);
        let guard = mutex.lock().await.unwrap();
        assert!(other.locks().mutex("a").try_lock().await.unwrap().is_none(), "busy is no error");
        let waiting = tokio::spawn(other.locks().mutex("a").ttl(LONG).lock());
        until_line(one.locks(), "a", 2).await;
        for _ in 0..3 {
            guard.extend().await.unwrap();
        }
        assert!(guard.trouble().is_none());
        let told = last_of(&one, spoilt).expect("the board tells of it").to_string();
        for part in ["cannot be read", "\"a\"", &head("a"), &spoilt.port().to_string()] {
            assert!(told.contains(part), "`{part}` is not in: {told}");
        }
        assert_eq!(one.locks().keys("").await.unwrap().len(), 1);
        let token = guard.token();
        guard.release().await.unwrap();
        let next = soon("the waiter is served", waiting).await.unwrap().unwrap();
        assert!(next.token() > token);
        next.release().await.unwrap();
        // A pair asks that server twice at most, and nothing is asked of it afterwards.
        let before = calls_in_the_end(spoilt).await;
        for _ in 0..10 {
            mutex.try_lock().await.unwrap().expect("it is free").release().await.unwrap();
        }
        let asked = calls_in_the_end(spoilt).await - before;
        // A call that was answered too late may have been sent again. A refused call is not.
        assert!(asked < 30, "{asked} calls for ten pairs");
    });
}

#[test]
fn where_no_majority_can_be_read_it_is_refused_and_the_servers_are_named() {
    play(async || {
        let masters = Masters::start(5).unwrap();
        let redlock = open(&masters).await;
        let mutex = redlock.locks().mutex("a").ttl(LONG).renew_every(Duration::from_millis(300));
        let guard = mutex.lock().await.unwrap();
        let [one, two, three, ..] = masters.servers() else { panic!("there are five") };
        let ports = [one, two, three].map(|server| server.port().to_string());
        for server in [one, two, three] {
            spoil(server, "a");
        }
        let [first, second, third] = &ports;
        let told = ["cannot be read", "\"a\"", &head("a"), first, second, third];
        assert_refused(mutex.try_lock().await, ErrorKind::Rejected, &told);
        assert_refused(soon("it is refused", mutex.lock()).await, ErrorKind::Rejected, &told);
        assert_refused(redlock.locks().line("a").await, ErrorKind::Rejected, &told);
        assert_refused(guard.extend().await, ErrorKind::Rejected, &told);
        let trouble = guard.trouble().expect("a renewal failed").to_string();
        assert!(told.iter().all(|part| trouble.contains(part)), "{trouble}");
        guard.check().expect("its life is not over");
        // Other keys are kept by the same servers.
        redlock.locks().mutex("b").lock().await.unwrap().release().await.unwrap();
        drop(guard);
    });
}
