//! The file system of the server is full, and has room again.

use tenure_core::{ErrorKind, Result};
use tenure_servers::mariadb::{Setup, may_mount};

use super::stage::{LONG, connect, play};

/// Maximum lines that the pages of a table have room for before it grows.
const LINES_MAX: usize = 1000;
/// Maximum commits that the last page of a binary log has room for.
const COMMITS_MAX: usize = 100;

#[test]
fn a_full_disk_refuses_new_lines_and_keeps_those_that_are_held() {
    play(async || {
        if !may_mount() {
            return;
        }
        let server = Setup::new().small_disk().start().unwrap();
        let locks = connect(server.url()).await;
        let held = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        server.fill_disk().unwrap();
        let mut guards = Vec::new();
        let refused = loop {
            match locks.mutex(format!("{:01000}", guards.len())).ttl(LONG).lock().await {
                Ok(guard) => guards.push(guard),
                Err(error) => break error,
            }
            assert!(guards.len() < LINES_MAX, "the disk is not full");
        };
        assert_eq!(refused.kind(), ErrorKind::Rejected);
        assert!(refused.to_string().contains("is full"), "{refused}");
        // All that needs no new page goes on.
        let other = connect(server.url()).await;
        assert_eq!(other.keys("").await.unwrap().len(), guards.len() + 1);
        assert_eq!(other.sequence("s").next().await.unwrap(), 1);
        assert!(other.counter("c").window(LONG).add(1).await.unwrap().allowed);
        held.extend().await.unwrap();
        held.release().await.unwrap();
        server.empty_disk().unwrap();
        for guard in &guards {
            guard.extend().await.unwrap();
        }
        let next = other.mutex(format!("{:01000}", guards.len())).ttl(LONG);
        assert!(next.try_lock().await.unwrap().is_some(), "the refused ticket has gone");
    });
}

/// Each write answers, and reads go on. `MariaDB` tries to write its log again after 60 s, so that
/// is not awaited here.
#[test]
fn a_full_disk_of_the_binary_log_fails_every_write_in_time_and_holders_stay() {
    play(async || {
        if !may_mount() {
            return;
        }
        let server = Setup::new().small_disk().binary_log().start().unwrap();
        let locks = connect(format!("{}?timeout=300ms", server.url())).await;
        let held = locks.mutex("a").ttl(LONG).lock().await.unwrap();
        let left = locks.mutex("b").ttl(LONG).lock().await.unwrap();
        server.fill_disk().unwrap();
        let mut commits = 0;
        while locks.sequence("s").next().await.is_ok() {
            commits += 1;
            assert!(commits < COMMITS_MAX, "the disk is not full");
        }
        let answers: [Result<()>; 4] = [
            locks.sequence("s").next().await.map(drop),
            locks.mutex("c").ttl(LONG).try_lock().await.map(drop),
            held.extend().await,
            left.release().await,
        ];
        for answer in answers {
            assert_eq!(answer.unwrap_err().kind(), ErrorKind::Unavailable);
        }
        held.check().unwrap();
        let other = connect(server.url()).await;
        for (key, tickets) in [("a", 1), ("b", 1), ("c", 0)] {
            assert_eq!(other.line(key).await.unwrap().len(), tickets, "{key}");
        }
    });
}
