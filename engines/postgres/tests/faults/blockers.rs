//! A verb whose statement is answered late. The stories of all SQL databases have the blockers.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tenure_conformance::fault::stories::sql::SqlServer as _;
use tenure_conformance::fault::stories::sql::blockers::until_a_expires;
use tenure_conformance::fault::{Act, Match, Proxy};
use tenure_core::{Engine as _, LeaveMode, LeaveOutcome, TicketState, WaitMode};
use tenure_servers::postgres::Server;

use super::sql::PostgreSql;
use super::stage::{LONG, engine, play, soon, ticket, until};

#[test]
fn no_verb_decides_on_an_answer_that_came_late() {
    play(async || {
        const TTL: Duration = Duration::from_secs(2);
        // The first statement of each verb reads the line.
        const READS: &str = "_1($1";
        let server = PostgreSql(Server::start().unwrap());
        let port = server.0.port();
        let proxy = Proxy::to(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
        let url = format!("postgres://postgres@{}/postgres?timeout=60s", proxy.address());
        let engine = engine(&url).await;
        // Each verb decides on a lease that ends before it knows.
        for verb in ["renew", "leave", "join"] {
            server.sql("DELETE FROM tenure.line");
            let (held, next) = (ticket("a", TTL), ticket("a", LONG));
            // Two tickets, so no verb is that of a lone one.
            for ticket in [&held, &ticket("a", TTL)] {
                engine.join(ticket, WaitMode::Wait).await.unwrap().expect("it is in the line");
            }
            let reply = proxy.on(Match::request_containing(READS), Act::HoldReply);
            let asks = async {
                match verb {
                    "renew" => assert_eq!(engine.renew(&held).await.unwrap(), None),
                    "leave" => {
                        let left = engine.leave(&held, LeaveMode::Now).await.unwrap();
                        assert_eq!(left, LeaveOutcome::Absent);
                    }
                    _ => {
                        let place = engine.join(&next, WaitMode::Wait).await.unwrap();
                        assert_eq!(place.unwrap().state, TicketState::Holding);
                    }
                }
            };
            let late = async {
                until("the line is read", async || reply.is_hit()).await;
                until_a_expires(&server).await;
                reply.release();
            };
            soon("it is answered", async { tokio::join!(asks, late) }).await;
        }
    });
}
