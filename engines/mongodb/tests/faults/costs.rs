//! Costs: what a client that does nothing asks of its server.

use std::time::Duration;

use tenure_core::{Engine as _, Leave};
use tenure_servers::mongodb::Server;

use super::stage::{LONG, connect, count, join, play, soon, store, ticket};

const GIVEN_UP: i64 = 50;

#[test]
fn an_idle_client_asks_the_server_for_nothing() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let held = ticket("a", LONG);
        join(&store, &held).await;
        store.leave(&held, Leave::Now).await.unwrap();
        let asked = || {
            let commands = ["findAndModify", "update", "insert", "getMore"];
            commands.map(|command| count(&server, command))
        };
        let before = asked();
        // Longer than any heartbeat of the driver.
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(before, asked(), "nobody waits, so nobody listens either");
    });
}

/// Such a ticket is not in the line, and never will be: nobody need look for it until its life would be over.
#[test]
fn a_join_that_is_given_up_before_it_is_sent_costs_a_leave() {
    play(async || {
        let server = Server::start().unwrap();
        let (holder, others) = (connect(server.url()).await, connect(server.url()).await);
        let _held = holder.mutex("a").lock().await.unwrap();
        let before = count(&server, "findAndModify");
        for _ in 0..GIVEN_UP {
            let _in_vain = others.mutex("a").lock_within(Duration::from_nanos(1)).await;
        }
        soon("all are given back", others.settled()).await;
        let asked = count(&server, "findAndModify") - before;
        assert!(asked <= GIVEN_UP * 3, "{asked} commands for {GIVEN_UP} tickets");
    });
}
