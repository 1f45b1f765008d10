//! Strangers' transactions have the rows of many lines, or the row of `meta`. The stories of all
//! SQL databases have the other blockers.

use std::time::Duration;

use tenure_conformance::fault::stories::sql::SqlServer as _;
use tenure_conformance::fault::stories::sql::blockers::{
    behind, forty_rows_that_are_blocked_keep_no_other_key_waiting, until_a_expires,
};
use tenure_core::{Engine as _, TicketState, WaitMode};
use tenure_servers::mariadb::Server;

use super::sql::MariaDb;
use super::stage::{LONG, engine, play, ticket};

const ENDS: [&str; 2] = ["COMMIT", "ROLLBACK"];

#[test]
fn few_of_many_blocked_rows_are_waited_for_in_the_server() {
    play(async || {
        let server = MariaDb(Server::start().unwrap());
        forty_rows_that_are_blocked_keep_no_other_key_waiting(&server).await;
        // Each wait stops all keys for a second.
        assert!(server.row_waits() < 10);
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
