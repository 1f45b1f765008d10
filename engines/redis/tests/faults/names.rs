//! Tenure's names are its own: nothing else is touched, and nothing of its own stays for ever.

use std::time::Duration;

use tenure_core::{Engine as _, LeaveMode, Share, Ticket, WaitMode};
use tenure_servers::redis::Server;

use super::stage::{LONG, all_keys, ask, connect, play, soon, store, ticket, until_line};

/// Time for which an empty line's number is kept, in milliseconds.
const KEEP_MS: i64 = 60_000;

#[test]
fn nothing_but_tenures_own_is_touched() {
    play(async || {
        let server = Server::start().unwrap();
        let mut client = server.client().unwrap();
        let foreign = [
            "a",
            "tenure",
            "tenure:",
            "tenure:a",
            "tenure:{v1.}x",
            "tenure2:{v1.0}",
            "x:{v1.0}",
            "tenure:inbox:a",
        ];
        for key in foreign {
            client.command(&["RPUSH", key, "theirs"]).unwrap();
        }
        let locks = connect(server.url()).await;
        let neighbour = connect(format!("{}?prefix=tenure2", server.url())).await;
        let _theirs = neighbour.mutex("a").lock().await.unwrap();
        let (guard, other) = (locks.mutex("a").lock().await.unwrap(), locks.mutex("a"));
        let waiter = tokio::spawn(async move { other.lock().await });
        until_line(&locks, "a", 2).await;
        let keys: Vec<_> = locks.keys("").await.unwrap();
        assert_eq!(keys.iter().map(tenure_core::Key::as_str).collect::<Vec<_>>(), ["a"]);
        locks.sequence("a").next().await.unwrap();
        assert!(locks.counter("a").window(LONG).add(1).await.unwrap().allowed);
        guard.release().await.unwrap();
        soon("it is served", waiter).await.unwrap().unwrap().release().await.unwrap();
        for key in foreign {
            let theirs = client.command(&["LRANGE", key, "0", "-1"]).unwrap();
            assert_eq!(theirs.list().unwrap().len(), 1, "{key}");
        }
        for key in all_keys(&mut client) {
            let own = key.starts_with("tenure:{v1.") || key.starts_with("tenure2:{v1.");
            assert!(own || foreign.contains(&key.as_str()), "{key}");
        }
        assert_eq!(ask(&server, "INFO keyspace").field("db1").ok(), None);
    });
}

#[test]
fn everything_of_tenures_ends_by_itself_but_sequences() {
    play(async || {
        let server = Server::start().unwrap();
        let mut client = server.client().unwrap();
        let store = store(&server.url()).await;
        let of = |key: &str, take, of, ttl| Ticket {
            share: Share::new(take, of).unwrap(),
            ..ticket(key, ttl)
        };
        let ttl = Duration::from_secs(30);
        let day = Duration::from_secs(24 * 3600);
        let mut tickets = vec![ticket("alone", ttl), ticket("for a day", day)];
        tickets.extend((0..3).map(|_| ticket("mutex", ttl)));
        // Unequal shares have keys of their own.
        tickets.extend([5, 5, 3, 3, 1].map(|take| of("permits", take, 5, ttl)));
        for ticket in &tickets {
            store.join(ticket, WaitMode::Wait).await.unwrap();
        }
        let window = tenure_core::Window { per: ttl, limit: None };
        assert!(store.add(&tickets[0].key, 1, Some(window)).await.unwrap().allowed);
        let mut longest = || {
            let keys = all_keys(&mut client);
            let lives = keys.iter().map(|key| {
                let life = client.command(&["PTTL", key]).unwrap().integer().unwrap();
                assert!(life > 0, "{key} lives for ever");
                life
            });
            (keys.len(), lives.max().unwrap())
        };
        let (count, longest_life) = longest();
        assert!(count >= 12, "{count} keys");
        assert!(longest_life <= 2 * KEEP_MS + 24 * 3_600_000, "{longest_life} ms");

        for ticket in &tickets {
            store.renew(ticket).await.unwrap().unwrap();
        }
        longest();
        for ticket in &tickets {
            store.leave(ticket, LeaveMode::Now).await.unwrap();
        }
        let (count, longest_life) = longest();
        assert_eq!(count, 5, "four idle lines and a count are left");
        assert!(longest_life <= 2 * KEEP_MS, "{longest_life} ms");
        assert!(store.add(&tickets[0].key, 1, None).await.unwrap().allowed);
        let sequences: Vec<_> =
            all_keys(&mut client).into_iter().filter(|key| key.ends_with(":n")).collect();
        assert_eq!(sequences.len(), 1);
        assert_eq!(client.command(&["PTTL", &sequences[0]]).unwrap().integer(), Ok(-1));
    });
}
