//! Breaks: compare-and-break, roles, records, and the rate limit.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tenure_core::{Engine as _, Key, LeaveMode, Locks, Loss, Share, Ticket, TicketId};
use tenure_serve::{BreakRecord, BreakResult, Role, serve};

use crate::kit::{Answer, TestServer, join, store};

async fn server(locks: &Locks, role: Role) -> TestServer {
    TestServer::of(serve(locks).role(role)).await
}

/// The body of a break of the ticket at this place of the line of `k`.
async fn seen(server: &TestServer, place: usize, force: bool) -> Value {
    let ticket = &server.json("/v1/lines/k").await["tickets"][place];
    json!({ "ticket": ticket["ticket"], "number": ticket["number"], "force": force })
}

fn result(answer: &Answer) -> String {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.value("result")
}

#[tokio::test]
async fn a_holder_is_asked_and_the_next_is_served_when_it_has_left() {
    let (memory, locks) = store();
    let guard = locks.mutex("k").lock().await.unwrap();
    join(&memory, "k", "next").await;
    let server = server(&locks, Role::Ask).await;
    let body = seen(&server, 0, false).await;
    assert_eq!(result(&server.break_ticket("k", &body).await), "requested");
    assert_eq!(guard.lost().await, Loss::Broken);
    assert_eq!(result(&server.break_ticket("k", &body).await), "leaving");
    drop(guard);
    locks.flush().await;
    let line = locks.line("k").await.unwrap();
    assert_eq!((line.len(), &*line[0].owner, line[0].label()), (1, "next", "holding"));
    // The same request again does not touch the next holder.
    assert_eq!(result(&server.break_ticket("k", &body).await), "another ticket");
    assert_eq!(locks.line("k").await.unwrap().len(), 1);
    server.end().await;
}

#[tokio::test]
async fn a_waiter_is_removed_at_once_and_twice_is_once() {
    let (memory, locks) = store();
    join(&memory, "k", "holder").await;
    join(&memory, "k", "waiter").await;
    let server = server(&locks, Role::Ask).await;
    let body = seen(&server, 1, false).await;
    assert_eq!(result(&server.break_ticket("k", &body).await), "gone");
    assert_eq!(locks.line("k").await.unwrap().len(), 1);
    assert_eq!(result(&server.break_ticket("k", &body).await), "another ticket");
    server.end().await;
}

#[tokio::test]
async fn a_ticket_with_another_number_is_not_broken() {
    let (memory, locks) = store();
    join(&memory, "k", "holder").await;
    let server = server(&locks, Role::Force).await;
    let mut body = seen(&server, 0, true).await;
    body["number"] = json!(body["number"].as_u64().unwrap() + 1);
    assert_eq!(result(&server.break_ticket("k", &body).await), "another ticket");
    assert_eq!(locks.line("k").await.unwrap()[0].label(), "holding");
    let free = json!({ "ticket": body["ticket"], "number": 1 });
    assert_eq!(result(&server.break_ticket("free", &free).await), "gone");
    server.end().await;
}

#[tokio::test]
async fn a_role_permits_what_it_says() {
    let (memory, locks) = store();
    let holder = join(&memory, "k", "holder").await;
    for (role, force, status) in [
        (Role::Look, false, 403),
        (Role::Look, true, 403),
        (Role::Ask, true, 403),
        (Role::Ask, false, 200),
        (Role::Force, true, 200),
    ] {
        let server = server(&locks, role).await;
        let body = seen(&server, 0, force).await;
        let answer = server.break_ticket("k", &body).await;
        assert_eq!(answer.status, status, "{role:?} {force}: {answer:?}");
        server.end().await;
    }
    let line = locks.line("k").await.unwrap();
    assert!(line.iter().all(|entry| entry.id != holder), "it was removed by force");
}

#[tokio::test]
async fn a_break_is_recorded_without_its_key() {
    let records: Arc<Mutex<Vec<BreakRecord>>> = Arc::default();
    let (memory, locks) = store();
    let holder = join(&memory, "k", "holder").await;
    let kept = records.clone();
    let service = serve(&locks)
        .role(Role::Ask)
        .on_break(move |record| kept.lock().unwrap().push(record.clone()));
    let server = TestServer::of(service).await;
    let body = seen(&server, 0, false).await;
    // A refusal without the header, whose body is not read.
    assert_eq!(server.post("k", &body.to_string(), &[]).await.status, 403);
    assert_eq!(server.break_ticket("k", &json!({ "ticket": "k", "number": 7 })).await.status, 400);
    assert_eq!(result(&server.break_ticket("k", &body).await), "requested");
    locks.close().await;
    assert!(server.break_ticket("k", &body).await.status >= 400);
    let records = records.lock().unwrap();
    assert_eq!(records.len(), 4);
    assert_eq!((records[0].ticket.as_str(), records[0].status), ("unread", 403));
    assert_eq!((records[1].ticket.as_str(), records[1].status), ("invalid", 400));
    for (record, result) in records[2..].iter().zip([Some(BreakResult::Requested), None]) {
        assert_eq!((record.who.as_str(), &record.ticket), ("local", &holder.to_string()));
        assert!(record.from.as_ref().unwrap().starts_with("127.0.0.1:"));
        assert_eq!(record.result, result);
    }
    assert!(!serde_json::to_string(&*records).unwrap().contains("\"k\""));
}

#[tokio::test]
async fn breaks_are_limited_in_their_rate() {
    let (_, locks) = store();
    let server = server(&locks, Role::Ask).await;
    let body = json!({ "ticket": TicketId::fresh().to_string(), "number": 1 });
    let mut refused = None;
    // More than the rate permits, however slow this machine is.
    for _ in 0..100 {
        let all = (0..50).map(|_| server.break_ticket("k", &body));
        let answers = futures_util::future::join_all(all).await;
        refused = answers.into_iter().find(|answer| answer.status == 429);
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("one is refused");
    assert!(refused.head.contains("retry-after: 1"), "{}", refused.head);
    server.end().await;
}

#[tokio::test]
async fn a_wrong_body_is_refused() {
    let (_, locks) = store();
    let server = server(&locks, Role::Force).await;
    let id = TicketId::fresh().to_string();
    for body in [
        String::new(),
        "{}".into(),
        json!({ "ticket": "12", "number": 1 }).to_string(),
        json!({ "ticket": id, "number": -1 }).to_string(),
        json!({ "ticket": id, "number": 1, "key": "k" }).to_string(),
        format!("{}x", json!({ "ticket": id, "number": 1 })),
    ] {
        let answer = server.post("k", &body, &[("Tenure-Request", "1")]).await;
        assert_eq!(answer.status, 400, "{body}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_ticket_that_left_leaves_a_free_key() {
    let (memory, locks) = store();
    let server = server(&locks, Role::Ask).await;
    let id = join(&memory, "k", "holder").await;
    let body = seen(&server, 0, false).await;
    let ticket = Ticket { id, ..Ticket::new(Key::new("k").unwrap(), Share::WHOLE) };
    memory.leave(&ticket, LeaveMode::Now).await.unwrap();
    assert_eq!(result(&server.break_ticket("k", &body).await), "gone");
    server.end().await;
}
