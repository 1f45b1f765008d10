//! A server that forgets: evicted locks, flushed data, and parts of a line that are gone.

use std::time::Duration;

use tenure_core::{ErrorKind, LineEntry, Locks, Loss, MutexGuard, Result, TicketState};
use tenure_servers::redis::{Server, Setup};
use tokio::task::JoinHandle;

use super::stage::{
    LONG, ask, assert_refused, connect, head, play, script_calls, soon, until, until_line,
};

const BEAT: Duration = Duration::from_millis(300);

fn waiting(locks: &Locks) -> JoinHandle<Result<MutexGuard>> {
    let mutex = locks.mutex("a").ttl(LONG).renew_every(BEAT);
    tokio::spawn(async move { mutex.lock().await })
}

#[test]
fn an_evicted_lock_is_found_out_and_warned_about() {
    play(async || {
        let setup = Setup::new().setting(&["maxmemory-policy", "volatile-lru"]);
        let server = setup.start().unwrap();
        let locks = connect(server.url()).await;
        let warnings = &locks.guarantees().warnings;
        assert!(!locks.guarantees().survives.full_memory);
        assert!(warnings.iter().any(|it| it.contains("volatile-lru")), "{warnings:?}");
        let guard = locks.mutex("a").ttl(LONG).renew_every(BEAT).lock().await.unwrap();
        // Memory is full for a moment, and the server may evict nothing but the lock.
        ask(&server, "CONFIG SET maxmemory 1mb");
        let _ = server.command(&["SET", "stranger", "x"]); // The server may refuse it.
        until("it is evicted", async || {
            ask(&server, "INFO stats").field("evicted_keys").unwrap() != "0"
        })
        .await;
        ask(&server, "CONFIG SET maxmemory 0");
        assert_eq!(soon("it is told", guard.lost()).await, Loss::Broken);
        let next = locks.mutex("a").lock().await.unwrap();
        assert!(next.token() > guard.token());
    });
}

#[test]
fn a_flush_is_told_to_holders_and_waiters_and_numbers_grow_over_it() {
    play(async || {
        let server = Server::start().unwrap();
        let (locks, other) = (connect(server.url()).await, connect(server.url()).await);
        let mut newest = 0;
        for _ in 0..2 {
            let guard = locks.mutex("a").ttl(LONG).renew_every(BEAT).lock().await.unwrap();
            assert!(guard.token().get() > newest);
            let waiter = waiting(&other);
            until_line(&locks, "a", 2).await;
            ask(&server, "FLUSHALL");
            assert_eq!(soon("the holder is told", guard.lost()).await, Loss::Broken);
            let told = soon("the waiter is told", waiter).await.unwrap();
            assert_refused(told, ErrorKind::Lost, &["removed from the line"]);
            let next = locks.mutex("a").lock().await.unwrap();
            assert!(
                next.token().get() > guard.token().get() + 1,
                "the waiter's number was given again"
            );
            newest = next.token().get();
            next.release().await.unwrap();
        }
    });
}

#[test]
fn a_line_that_lost_a_part_ends_for_those_behind_and_never_serves_two() {
    play(async || {
        for part in ["", ":t", ":l", ":e"] {
            let server = Server::start().unwrap();
            let locks = connect(server.url()).await;
            let guard = locks.mutex("a").ttl(LONG).renew_every(BEAT).lock().await.unwrap();
            let mut waiters = Vec::new();
            for count in 2..=4 {
                waiters.push(waiting(&connect(server.url()).await));
                until_line(&locks, "a", count).await;
            }
            assert_eq!(server.command(&["DEL", &(head("a") + part)]).unwrap().integer(), Ok(1));
            if part.is_empty() {
                assert_eq!(soon("the holder is told", guard.lost()).await, Loss::Broken);
            } else {
                guard.extend().await.unwrap();
            }
            let late = waiting(&connect(server.url()).await);
            if !part.is_empty() {
                until("the late one stands behind, or is out with the others", async || {
                    let line = locks.line("a").await.unwrap();
                    let is_behind = |entry: &LineEntry| entry.state == TicketState::Waiting;
                    late.is_finished() || line.last().is_some_and(is_behind)
                })
                .await;
            }
            let calls = script_calls(&server);
            until("signs of life are given", async || script_calls(&server) > calls + 8).await;
            let token = guard.token();
            drop(guard);
            // Each former waiter is served in its turn, or gets the error that it is out of the
            // line.
            let (mut newest, mut count) = (token, 0);
            for waiter in waiters.into_iter().chain([late]) {
                match soon("it has an answer", waiter).await.unwrap() {
                    Ok(guard) => {
                        guard.check().unwrap();
                        assert!(guard.token() > newest, "{part}");
                        newest = guard.token();
                        count += 1;
                        guard.release().await.unwrap();
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Lost, "{part}: {error}"),
                }
            }
            println!("without `{part}`, {count} of 4 were served");
            let next = soon("it is free", locks.mutex("a").lock()).await.unwrap();
            assert!(next.token() > newest, "{part}");
            assert_eq!(locks.line("a").await.unwrap().len(), 1, "{part}");
        }
    });
}
