//! Servers that are cut off, stepped down, silent, or without transactions.

use std::time::Duration;

use tenure_servers::mongodb::{Members, Server, Setup};

use super::*;

#[test]
fn a_server_without_transactions_gets_an_error_of_its_own() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Setup::new().standalone().start().expect("it starts");
    block_on(async {
        let bench = Bench::at(&server.url()).await;
        bench.fence.claim(numbered(1)).await.expect("a claim is a single write");
        assert_failed(bench.insert(1, 1).await, ErrorKind::Unsupported, "make it a replica set");
    });
}

/// Each command of a write fails once, and the write is still done exactly once.
#[test]
fn a_transient_failure_is_retried_and_the_write_is_done_once() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().expect("it starts");
    block_on(async {
        let bench = Bench::at(&server.url()).await;
        bench.insert(1, 1).await.expect("it is the first");
        let raise = doc! { "$inc": { "amount": 1 } };
        let mut expected = 0;
        for command in ["findAndModify", "update", "commitTransaction"] {
            for (name, value) in [
                ("closeConnection", doc! { "closeConnection": true }),
                ("189", doc! { "errorCode": 189 }),
            ] {
                let mut what = doc! { "failCommands": [command] };
                what.extend(value);
                server.fail_commands(what, 1).expect("the server accepts");
                let one = doc! { "_id": 1 };
                let done =
                    bench.fence.update_one(&bench.accounts, one, raise.clone(), numbered(1)).await;
                done.unwrap_or_else(|error| panic!("{command} {name}: {error:?}"));
                expected += 1;
                assert_eq!(bench.amount().await, expected, "{command} {name}");
            }
        }
    });
}

#[test]
fn a_frozen_server_delays_a_write_no_longer_than_its_limit() {
    if !have(&[MONGOD]) {
        return;
    }
    let server = Server::start().expect("it starts");
    block_on(async {
        let bench = Bench::at(&server.url()).await;
        bench.insert(1, 1).await.expect("it is the first");
        let fence = bench.fence.clone().within(Duration::from_millis(300)).expect("it is a time");
        server.freeze().expect("it stands still");
        assert_failed(fence.claim(numbered(2)).await, ErrorKind::Unavailable, "may be done or not");
        let late = fence.delete_one(&bench.accounts, doc! {}, numbered(2)).await;
        assert_failed(late, ErrorKind::Unavailable, "nothing was changed");
        server.thaw().expect("it goes on");
        assert_eq!(bench.amount().await, 0);
        bench.set(3, 2).await.expect("it answers again");
    });
}

#[test]
fn a_claim_holds_over_the_end_of_the_primary() {
    if !have(&[MONGOD]) {
        return;
    }
    let members = Members::start(3).expect("they start");
    block_on(async {
        let bench = Bench::at(&members.url()).await;
        bench.insert(1, 41).await.expect("it is the first");
        bench.fence.claim(numbered(42)).await.expect("it is newer");
        let first = members.primary().expect("there is one");
        first.kill().expect("it can be killed");
        assert_stale(bench.set(9, 41).await, 41, 42);
        bench.set(5, 42).await.expect("the next primary takes it");
        assert_eq!(bench.amount().await, 5);
    });
}
