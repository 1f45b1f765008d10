//! Onlookers get every event, whatever happens to their stream, or a report that they missed some.

use std::collections::HashMap;
use std::time::Duration;

use tenure_core::event::{Cursor, Event, EventKind, Scope};
use tenure_core::{Engine as _, LeaveMode, TicketId};
use tenure_mongodb::MongoStore;
use tenure_servers::mongodb::{Server, doc};

use super::stage::{LONG, ask, connect, join, play, record, soon, store, ticket};

const CLIENTS: usize = 3;
const TASKS: usize = 8;
const LOCKS: usize = 10;

fn all() -> Scope {
    Scope::Prefix(String::new())
}

/// Returns `count` events from the cursor on, of which none may be missed.
async fn events(store: &MongoStore, scope: &Scope, mut cursor: Cursor, count: usize) -> Vec<Event> {
    let mut events = Vec::new();
    while events.len() < count {
        // An outage is an error, and the next call goes on after the last event.
        let Ok(news) = soon("an event", store.events(scope, Some(cursor))).await else { continue };
        assert!(!news.missed, "nothing is missed");
        cursor = news.cursor;
        events.extend(news.events);
    }
    events
}

/// Many clients lock a few keys. For each ticket an onlooker must see once that it came, was served
/// and left, in this order.
async fn every_lock_is_told(server: &Server, trouble: impl AsyncFnOnce()) {
    let onlooker = store(&server.url()).await;
    let begin = onlooker.events(&all(), None).await.unwrap().cursor;
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let locks = connect(server.url()).await;
        for task in 0..TASKS {
            let locks = locks.clone();
            tasks.push(tokio::spawn(async move {
                for _ in 0..LOCKS {
                    let guard = locks.mutex(format!("k{}", task % 3)).lock().await.unwrap();
                    guard.release().await.unwrap();
                }
            }));
        }
    }
    trouble().await;
    let told = events(&onlooker, &all(), begin, CLIENTS * TASKS * LOCKS * 3).await;
    for task in tasks {
        task.await.unwrap();
    }
    let mut tickets: HashMap<TicketId, Vec<EventKind>> = HashMap::new();
    let mut holder: HashMap<String, TicketId> = HashMap::new();
    for event in &told {
        tickets.entry(event.ticket.id).or_default().push(event.kind);
        let key = event.ticket.key.to_string();
        match event.kind {
            EventKind::Served => {
                assert_eq!(holder.insert(key, event.ticket.id), None, "one at a time");
            }
            EventKind::Left => drop(holder.remove(&key)),
            _ => {}
        }
    }
    assert_eq!(tickets.len(), CLIENTS * TASKS * LOCKS);
    for told in tickets.values() {
        assert_eq!(*told, [EventKind::Joined, EventKind::Served, EventKind::Left]);
    }
}

#[test]
fn every_lock_of_many_clients_is_told() {
    play(async || {
        let server = Server::start().unwrap();
        every_lock_is_told(&server, async || ()).await;
    });
}

#[test]
fn nothing_is_missed_while_the_stream_is_killed_again_and_again() {
    play(async || {
        let server = Server::start().unwrap();
        every_lock_is_told(&server, async || {
            for code in [43, 11_600, 189] {
                let what = doc! { "failCommands": ["getMore"], "errorCode": code };
                server.fail_commands(what, 1).unwrap();
            }
        })
        .await;
    });
}

/// Takes the mark from an idle record, so that an onlooker does not read it when it begins.
fn unmark(server: &Server) {
    let change = doc! { "q": { "_id": record("a") }, "u": { "$unset": { "reap": 1 } } };
    ask(server, doc! { "update": "locks", "updates": [change] });
}

/// A record that the onlooker did not read when it began is not known to it, nor is its name.
#[test]
fn a_line_that_was_idle_is_told_by_its_name() {
    play(async || {
        let server = Server::start().unwrap();
        let (client, onlooker) = (store(&server.url()).await, store(&server.url()).await);
        let before = ticket("a", LONG);
        join(&client, &before).await;
        client.leave(&before, LeaveMode::Now).await.unwrap();
        unmark(&server);
        let begin = onlooker.events(&all(), None).await.unwrap().cursor;
        let held = ticket("a", Duration::from_secs(60));
        join(&client, &held).await;
        client.leave(&held, LeaveMode::Now).await.unwrap();
        let told = events(&onlooker, &all(), begin, 3).await;
        let told: Vec<_> = told.iter().map(|event| (event.kind, event.ticket.id)).collect();
        assert_eq!(
            told,
            [EventKind::Joined, EventKind::Served, EventKind::Left].map(|what| (what, held.id))
        );
    });
}

/// The onlooker asks for the name of such a record. If it gets no answer, it reads all lines anew.
#[test]
fn a_line_whose_name_is_not_read_is_told_as_missed_and_followed_from_then_on() {
    play(async || {
        let server = Server::start().unwrap();
        let (client, onlooker) = (store(&server.url()).await, store(&server.url()).await);
        let before = ticket("a", LONG);
        join(&client, &before).await;
        client.leave(&before, LeaveMode::Now).await.unwrap();
        unmark(&server);
        let begin = onlooker.events(&all(), None).await.unwrap().cursor;
        server.fail_commands(doc! { "failCommands": ["find"], "errorCode": 96 }, 1).unwrap();
        let held = ticket("a", LONG);
        join(&client, &held).await;
        let news = soon("it is told", onlooker.events(&all(), Some(begin))).await.unwrap();
        assert!(news.missed, "{:?}", news.events);
        client.leave(&held, LeaveMode::Now).await.unwrap();
        let told = events(&onlooker, &all(), news.cursor, 1).await;
        assert_eq!((told[0].kind, told[0].ticket.id), (EventKind::Left, held.id));
    });
}

#[test]
fn a_dropped_collection_is_told_as_something_missed() {
    play(async || {
        let server = Server::start().unwrap();
        let (client, onlooker) = (store(&server.url()).await, store(&server.url()).await);
        let held = ticket("a", LONG);
        join(&client, &held).await;
        let scope = Scope::Key(held.key.clone());
        let mut cursor = onlooker.events(&scope, None).await.unwrap().cursor;
        ask(&server, doc! { "drop": "locks" });
        loop {
            match soon("it is told", onlooker.events(&scope, Some(cursor))).await {
                Ok(news) if news.missed => {
                    cursor = news.cursor;
                    break;
                }
                Ok(news) => cursor = news.cursor,
                Err(_) => {}
            }
        }
        let next = ticket("a", LONG);
        join(&client, &next).await;
        let told = events(&onlooker, &scope, cursor, 2).await;
        assert!(told.iter().all(|event| event.ticket.id == next.id), "{told:?}");
    });
}
