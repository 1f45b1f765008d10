//! Costs: the commands that an idle client sends to its server.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use mongodb::bson::{Bson, Document};
use tenure_core::{
    Engine as _, ErrorKind, LeaveMode, LeaveOutcome, Share, Ticket, TicketState, WaitMode, Wake,
};
use tenure_servers::mongodb::{Server, doc};

use super::stage::{LONG, ask, connect, count, join, play, record, soon, store, ticket};

/// A ttl whose end leaves the date of an idle record as it is.
const MINUTE: Duration = Duration::from_secs(60);
const GIVEN_UP: i64 = 50;
const PAIRS: i64 = 200;
const RECORDS: i32 = 10_000;
const REFUSED: usize = 40;

/// Returns the searches for a record that the server logged.
fn searches(server: &Server) -> Vec<Document> {
    let by_verbs = doc! { "ns": "tenure.locks", "command.findAndModify": "locks" };
    let found =
        ask(server, doc! { "find": "system.profile", "filter": by_verbs, "batchSize": 1000 });
    let noted = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    noted.iter().map(|one| one.as_document().unwrap().clone()).collect()
}

fn number(noted: &Document, field: &str) -> i64 {
    let number = noted.get(field).unwrap_or(&Bson::Int32(0));
    number.as_i64().or(number.as_i32().map(i64::from)).unwrap()
}

#[test]
fn an_idle_client_asks_the_server_for_nothing() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let held = ticket("a", LONG);
        join(&store, &held).await;
        store.leave(&held, LeaveMode::Now).await.unwrap();
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

/// The record of a lock that was held before is as plain as one that was not.
#[test]
fn a_free_lock_costs_one_command_and_its_release_another() {
    play(async || {
        let server = Server::start().unwrap();
        let mutex = connect(server.url()).await.mutex("a");
        let before = count(&server, "findAndModify");
        mutex.lock().await.unwrap().release().await.unwrap();
        assert_eq!(count(&server, "findAndModify") - before, 3, "one makes the record");
        let before = count(&server, "findAndModify");
        for _ in 0..PAIRS {
            mutex.lock().await.unwrap().release().await.unwrap();
        }
        assert_eq!(count(&server, "findAndModify") - before, PAIRS * 2);
    });
}

/// The holder found an empty line, and does not know of the waiter.
#[test]
fn a_release_and_its_hand_over_are_one_command() {
    play(async || {
        let server = Server::start().unwrap();
        let (here, there) = (store(&server.url()).await, store(&server.url()).await);
        for next in [&there, &here, &there] {
            let [first, second] = [(); 2].map(|()| ticket("a", MINUTE));
            join(&here, &first).await;
            assert_eq!(join(next, &second).await.state, TicketState::Waiting);
            let before = count(&server, "findAndModify");
            let left = here.leave(&first, LeaveMode::Now).await.unwrap();
            let asked = count(&server, "findAndModify") - before;
            assert_eq!((left, asked), (LeaveOutcome::Holding, 1));
            let place = next.renew(&second).await.unwrap().expect("it stands there");
            assert_eq!(place.state, TicketState::Holding);
            next.leave(&second, LeaveMode::Now).await.unwrap();
        }
    });
}

#[test]
fn each_verb_of_a_ticket_is_one_command_also_after_its_first_ttl() {
    play(async || {
        let server = Server::start().unwrap();
        let (here, there) = (store(&server.url()).await, store(&server.url()).await);
        let ttl = Duration::from_secs(4);
        let [made, first] = [(); 2].map(|()| ticket("a", ttl));
        join(&here, &made).await;
        here.leave(&made, LeaveMode::Now).await.unwrap();
        let before = count(&server, "findAndModify");
        let (began, mut verbs) = (Instant::now(), 1);
        join(&here, &first).await;
        while began.elapsed() < ttl * 9 / 8 {
            here.renew(&first).await.unwrap().expect("it holds");
            verbs += 1;
        }
        let second = ticket("a", MINUTE);
        assert_eq!(join(&there, &second).await.state, TicketState::Waiting);
        let left = here.leave(&first, LeaveMode::Now).await.unwrap();
        assert_eq!(left, LeaveOutcome::Holding);
        assert_eq!(count(&server, "findAndModify") - before, verbs + 2);
        let place = there.renew(&second).await.unwrap().expect("it stands there");
        assert_eq!(place.state, TicketState::Holding);
    });
}

/// A short step that does not fit costs one more command.
#[test]
fn a_lock_that_another_client_took_meanwhile_costs_one_more_command_once() {
    play(async || {
        let server = Server::start().unwrap();
        let (here, there) = (store(&server.url()).await, store(&server.url()).await);
        for known in [0, 1] {
            let [own, held, next] = [(); 3].map(|()| ticket("a", MINUTE));
            join(&here, &own).await;
            here.leave(&own, LeaveMode::Now).await.unwrap();
            assert_eq!(join(&there, &held).await.state, TicketState::Holding);
            let asked = async || {
                let before = count(&server, "findAndModify");
                let refused = here.join(&next, WaitMode::NoWait).await.unwrap();
                assert_eq!(refused, None, "round {known}");
                count(&server, "findAndModify") - before
            };
            assert_eq!((asked().await, asked().await), (2, 1), "round {known}");
            there.leave(&held, LeaveMode::Now).await.unwrap();
        }
    });
}

/// The short leave serves one ticket that takes the whole line.
#[test]
fn a_writer_that_leaves_lets_all_readers_in_and_the_next_writer_waits() {
    play(async || {
        let server = Server::start().unwrap();
        let (here, there) = (store(&server.url()).await, store(&server.url()).await);
        let [writer, next] = [(); 2].map(|()| ticket("a", MINUTE));
        let reads = Share::new(1, Share::WHOLE.of()).unwrap();
        let readers = [(); 2].map(|()| Ticket { share: reads, ..ticket("a", MINUTE) });
        join(&here, &writer).await;
        for waiter in readers.iter().chain([&next]) {
            assert_eq!(join(&there, waiter).await.state, TicketState::Waiting);
        }
        let before = count(&server, "findAndModify");
        let left = here.leave(&writer, LeaveMode::Now).await.unwrap();
        let asked = count(&server, "findAndModify") - before;
        assert_eq!((left, asked), (LeaveOutcome::Holding, 2));
        for (ticket, state) in [
            (&readers[0], TicketState::Holding),
            (&readers[1], TicketState::Holding),
            (&next, TicketState::Waiting),
        ] {
            assert_eq!(there.renew(ticket).await.unwrap().expect("it stands there").state, state);
        }
    });
}

/// Inside one client the answer to the release notifies the next ticket, and no stream is needed.
#[test]
fn a_release_notifies_the_next_ticket_of_its_client() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        let [first, second] = [(); 2].map(|()| ticket("a", MINUTE));
        join(&store, &first).await;
        join(&store, &second).await;
        let woken = store.watch(&second, TicketState::Waiting);
        let left = store.leave(&first, LeaveMode::Now);
        let (woken, left) = soon("it is woken", futures_util::future::join(woken, left)).await;
        assert_eq!(left.unwrap(), LeaveOutcome::Holding);
        assert!(matches!(woken.unwrap(), Wake::Served(_)));
    });
}

/// Such a ticket is not in the line, and never will be. No waiter has to look for it until its life
/// would be over.
#[test]
fn a_join_that_is_given_up_before_it_is_sent_costs_a_leave() {
    play(async || {
        let server = Server::start().unwrap();
        let (holder, others) = (connect(server.url()).await, connect(server.url()).await);
        let _held = holder.mutex("a").lock().await.unwrap();
        let before = count(&server, "findAndModify");
        for _ in 0..GIVEN_UP {
            let _ = others.mutex("a").try_lock_for(Duration::from_nanos(1)).await; // it is held
        }
        soon("all are given back", others.flush()).await;
        let asked = count(&server, "findAndModify") - before;
        assert!(asked <= GIVEN_UP * 3, "{asked} commands for {GIVEN_UP} tickets");
    });
}

/// The conditions of the verbs on a record besides its id must not make the server examine others.
#[test]
fn a_verb_examines_one_record_of_many_and_whoever_is_refused_does_not_ask_again() {
    play(async || {
        let server = Server::start().unwrap();
        let store = store(&server.url()).await;
        for from in (0..RECORDS).step_by(1000) {
            let record = |nth| doc! { "_id": format!("other {nth}"), "key": format!("o{nth}"), "held": [], "waiting": [] };
            let others: Vec<Document> = (from..from + 1000).map(record).collect();
            ask(&server, doc! { "insert": "locks", "documents": others });
        }
        let odd = doc! { "_id": record("odd"), "key": "odd", "held": "somebody" };
        ask(&server, doc! { "insert": "locks", "documents": [odd] });
        ask(&server, doc! { "profile": 2 });
        for _ in 0..2 {
            let (first, second) = (ticket("a", LONG), ticket("a", LONG));
            join(&store, &first).await;
            store.renew(&first).await.unwrap();
            join(&store, &second).await;
            for ticket in [first, second] {
                store.leave(&ticket, LeaveMode::Now).await.unwrap();
            }
        }
        let read = searches(&server);
        let refused: Vec<_> = (0..REFUSED).map(|_| ticket("odd", LONG)).collect();
        let joins = refused.iter().map(|ticket| store.join(ticket, WaitMode::Wait));
        // While the server takes no write, one command is in flight and the other requests wait.
        server.command("admin", doc! { "fsync": 1, "lock": true }).unwrap();
        let mut joined = std::pin::pin!(futures_util::future::join_all(joins));
        assert!(joined.as_mut().now_or_never().is_none(), "no write is made");
        server.command("admin", doc! { "fsyncUnlock": 1 }).unwrap();
        for joined in joined.await {
            let error = joined.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Rejected, "{error:?}");
            assert!(error.to_string().contains("cannot be read"), "{error}");
        }
        let all = searches(&server);
        // The first tickets go in one command; the others go together.
        let asked = all.len() - read.len();
        assert!((1..=3).contains(&asked), "{asked} commands for {REFUSED} who are refused");
        assert!(read.len() >= 8, "{read:?}");
        for noted in all {
            let (keys, records) = (number(&noted, "keysExamined"), number(&noted, "docsExamined"));
            let plan = noted.get_str("planSummary").unwrap_or_default();
            let by_id = plan == "IDHACK" || plan == "IXSCAN { _id: 1 }";
            assert!(by_id && keys <= 1 && records <= 1, "{plan}: {keys} keys, {records} records");
        }
    });
}
