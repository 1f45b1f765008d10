//! A master is made a replica by hand, and its connected clients go on sending requests.

use std::time::Duration;

use tenure_core::{Engine as _, ErrorKind, LeaveMode, WaitMode, Window};
use tenure_redis::RedisStore;
use tenure_servers::redis::{Server, Setup};

use super::stage::{LONG, ask, assert_refused, play, store, ticket, until};

/// Connected clients, each of which learns of the change by its first request.
struct Clients(Vec<RedisStore>);

impl Clients {
    async fn of(server: &Server, count: usize) -> Self {
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            let client = store(&server.url()).await;
            // The scripts are known, and the connection is there.
            assert!(client.line(&ticket("other", LONG).key).await.unwrap().is_empty());
            all.push(client);
        }
        Self(all)
    }

    fn next(&mut self) -> RedisStore {
        self.0.pop().expect("there are enough")
    }
}

#[test]
fn a_master_that_was_made_a_replica_is_not_believed() {
    play(async || {
        for read_only in ["yes", "no"] {
            let empty = Server::start().unwrap();
            let server = Setup::new().setting(&["replica-read-only", read_only]).start().unwrap();
            let own = ticket("a", LONG);
            let holder = store(&server.url()).await;
            holder.join(&own, WaitMode::Wait).await.unwrap();
            let mut clients = Clients::of(&server, 7).await;
            let untouched = clients.next();
            ask(&server, &format!("REPLICAOF 127.0.0.1 {}", empty.port()));
            until("it has the data of the new master", async || {
                let info = ask(&server, "INFO replication");
                info.field("master_link_status").unwrap() == "up"
            })
            .await;

            let told = ["127.0.0.1", "is a replica"];
            // A replica does not know the line, and must not report it as empty.
            assert_refused(clients.next().renew(&own).await, ErrorKind::Unavailable, &told);
            let left = clients.next().leave(&own, LeaveMode::Now).await;
            assert_refused(left, ErrorKind::Unavailable, &told);
            assert_refused(clients.next().line(&own.key).await, ErrorKind::Unavailable, &told);
            assert_refused(clients.next().keys("").await, ErrorKind::Unavailable, &told);
            let nothing = clients.next().add(&own.key, 0, None).await;
            assert_refused(nothing, ErrorKind::Unavailable, &told);
            let window = Window { per: Duration::from_secs(60), limit: Some(0) };
            let limited = clients.next().add(&own.key, 1, Some(window)).await;
            assert_refused(limited, ErrorKind::Unavailable, &told);

            // The server is the master again, without its data: now the lock is lost.
            ask(&server, "REPLICAOF NO ONE");
            assert!(untouched.renew(&own).await.unwrap().is_none());
        }
    });
}

#[test]
fn a_line_that_a_replica_shows_as_busy_is_not_believed() {
    play(async || {
        let (server, next) = (Server::start().unwrap(), Server::start().unwrap());
        let (holder, own) = (ticket("a", LONG), ticket("a", LONG));
        store(&next.url()).await.join(&holder, WaitMode::Wait).await.unwrap();
        let client = store(&server.url()).await;
        assert!(client.line(&own.key).await.unwrap().is_empty());
        ask(&server, &format!("REPLICAOF 127.0.0.1 {}", next.port()));
        until("it has the data of the new master", async || {
            ask(&server, "INFO replication").field("master_link_status").unwrap() == "up"
        })
        .await;
        let busy = client.join(&own, WaitMode::NoWait).await;
        assert_refused(busy, ErrorKind::Unavailable, &["127.0.0.1", "is a replica"]);
    });
}
