//! Strangers' transactions have the rows of many lines, or the row of `meta`. The stories of all SQL
//! databases have the other blockers.

use std::time::Duration;

use tenure_conformance::fault::stories::sql::SqlServer as _;
use tenure_conformance::fault::stories::sql::blockers::{behind, until_a_expires};
use tenure_core::{Engine as _, LeaveMode, TicketState, WaitMode};
use tenure_servers::mariadb::Server;

use super::sql::MariaDb;
use super::stage::{LONG, Stranger, at_last, engine, play, row_waits, soon, ticket};

const ENDS: [&str; 2] = ["COMMIT", "ROLLBACK"];

#[test]
fn forty_rows_that_are_blocked_keep_no_other_key_waiting() {
    play(async || {
        const TAKEN: u32 = 10;
        // Without the gaps between the rows.
        const LOCK: &str = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; \
             SELECT 1 FROM locks.tenure_line WHERE `key` LIKE 'k%' FOR UPDATE";
        let server = Server::start().unwrap();
        let engine = engine(&server.url()).await;
        let held: Vec<_> = (0..40).map(|at| ticket(&format!("k{at}"), LONG)).collect();
        for ticket in &held {
            engine.join(ticket, WaitMode::NoWait).await.unwrap().expect("it is free");
        }
        let mut stranger = Stranger::of(&server).await;
        stranger.sql(LOCK).await;
        let before = row_waits(&server);
        let renewals = held.iter().cloned().map(|ticket| {
            let own = engine.clone();
            tokio::spawn(async move {
                // Each request fails at its deadline.
                while own.renew(&ticket).await.is_err() {}
            })
        });
        let renewals: Vec<_> = renewals.collect();
        let other = ticket("other", LONG);
        for _ in 0..TAKEN {
            let joins = async || engine.join(&other, WaitMode::NoWait).await;
            at_last("another key is locked", joins).await.expect("it is free");
            at_last("it leaves", async || engine.leave(&other, LeaveMode::Now).await).await;
        }
        assert!(renewals.iter().all(|renewal| !renewal.is_finished()));
        // The server waited for few of the rows: each wait would stop all keys for a second.
        assert!(row_waits(&server) - before < TAKEN.into());
        stranger.sql("ROLLBACK").await;
        for renewal in renewals {
            soon("it is renewed", renewal).await.unwrap();
        }
    });
}

#[test]
fn a_verb_that_is_paused_in_its_middle_decides_on_what_it_finds_behind_the_pause() {
    play(async || {
        // Another client begins a quarantine.
        const CLOSE: &str = "UPDATE locks.tenure_meta SET serve_from_us = 86400000000 + \
             timestampdiff(MICROSECOND, '1970-01-01', utc_timestamp(6))";
        let server = MariaDb(Server::start().unwrap());
        let engine = engine(&format!("{}?timeout=60s", server.url())).await;
        for end in ENDS {
            // `join_1` and `write_1` have locked the row of the line, and wait for that of `meta`.
            for is_free in [true, false] {
                server.sql("DELETE FROM locks.tenure_line");
                let open = "UPDATE locks.tenure_meta SET longest_us = 60000000, serve_from_us = 0";
                server.sql(open);
                if !is_free {
                    let first = ticket("a", Duration::from_millis(500));
                    engine.join(&first, WaitMode::NoWait).await.unwrap().expect("it is free");
                    until_a_expires(&server).await;
                }
                let (own, a) = (engine.clone(), ticket("a", LONG));
                let joins = async move { own.join(&a, WaitMode::Wait).await };
                let place = behind(&server, (CLOSE, end), joins, async || {}).await;
                let wanted =
                    if end == "COMMIT" { TicketState::Waiting } else { TicketState::Holding };
                assert_eq!(place.map(|place| place.state), Some(wanted), "{end} {is_free}");
            }
        }
    });
}
