//! Streams: the change stream ends, and every waiter is woken all the same.

use tenure_core::{Engine as _, LeaveMode, TicketId, TicketState, Wake};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::{Server, Setup, doc};

use super::stage::{LONG, ask, count, join, play, soon, store, ticket, until};

/// Part of the size that the oplog of a test's server keeps, which is 16 MB.
const PIECE_BYTES: usize = 4 << 20;

/// Asserts that a waiter is woken that listens, whose stream has trouble, and that is then served.
async fn is_woken_after(
    server: &Server,
    trouble: impl AsyncFnOnce(&MongoStore),
    end: impl FnOnce(),
) {
    let (holder, waiter) = (store(&server.url()).await, store(&server.url()).await);
    let key = TicketId::fresh().to_string();
    let (held, waits) = (ticket(&key, LONG), ticket(&key, LONG));
    join(&holder, &held).await;
    assert_eq!(join(&waiter, &waits).await.state, TicketState::Waiting);
    let watch = waiter.watch(&waits, TicketState::Waiting);
    let story = async {
        let listens = count(server, "getMore");
        until("it listens", async || count(server, "getMore") > listens).await;
        trouble(&holder).await;
        until("it is released", async || holder.leave(&held, LeaveMode::Now).await.is_ok()).await;
        end();
        std::future::pending::<()>().await;
    };
    let woken = soon("the waiter is woken", async {
        tokio::select! { woken = watch => woken, () = story => unreachable!("it goes on") }
    });
    assert!(matches!(woken.await.unwrap(), Wake::Served(_) | Wake::Look));
    // The trouble may have ended the connections of others, too.
    let place = soon("it is answered", async {
        loop {
            match waiter.renew(&waits).await {
                Ok(place) => return place.expect("it stands there"),
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
    })
    .await;
    assert_eq!(place.state, TicketState::Holding);
}

#[test]
fn a_stream_that_is_killed_goes_on_where_it_ended() {
    play(async || {
        let server = Server::start().unwrap();
        for code in [43, 237, 11_600, 189] {
            let trouble = async |_: &MongoStore| {
                let what = doc! { "failCommands": ["getMore"], "errorCode": code };
                server.fail_commands(what, 1).unwrap();
            };
            Box::pin(is_woken_after(&server, trouble, || ())).await;
        }
    });
}

#[test]
fn a_connection_that_ends_takes_no_letter_along() {
    play(async || {
        let server = Server::start().unwrap();
        let trouble = async |_: &MongoStore| {
            let what = doc! { "failCommands": ["getMore", "aggregate"], "closeConnection": true };
            server.fail_commands(what, 4).unwrap();
        };
        Box::pin(is_woken_after(&server, trouble, || ())).await;
    });
}

#[test]
fn an_oplog_that_rolled_over_under_the_stream_costs_no_hand_over() {
    play(async || {
        let server = Setup::new().checkpoint_every_s(1).start().unwrap();
        let trouble = async |_: &MongoStore| {
            let what = doc! { "failCommands": ["getMore", "aggregate"], "closeConnection": true };
            server.fail_commands(what, 1_000_000).unwrap();
            let heard = newest_of(&server);
            until("the oplog rolls over", async || {
                let piece = doc! { "piece": "x".repeat(PIECE_BYTES) };
                ask(&server, doc! { "insert": "ballast", "documents": [piece] });
                oldest_of(&server) > heard
            })
            .await;
        };
        let end = || server.fail_no_more().unwrap();
        Box::pin(is_woken_after(&server, trouble, end)).await;
    });
}

/// Returns when the oldest entry of the oplog was written, in seconds.
fn oldest_of(server: &Server) -> u32 {
    at_end_of_oplog(server, 1)
}

fn newest_of(server: &Server) -> u32 {
    at_end_of_oplog(server, -1)
}

fn at_end_of_oplog(server: &Server, from: i32) -> u32 {
    let one = doc! { "find": "oplog.rs", "sort": { "$natural": from }, "limit": 1, "projection": { "ts": 1 } };
    let found = server.command("local", one).unwrap();
    let entries = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    entries[0].as_document().unwrap().get_timestamp("ts").unwrap().time
}
