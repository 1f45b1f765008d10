//! Costs: what a client that does nothing asks of its server.

use std::time::Duration;

use tenure_core::{Engine as _, Leave};
use tenure_servers::mongodb::Server;

use super::stage::{LONG, count, join, play, store, ticket};

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
