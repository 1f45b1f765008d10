//! Locks over HTTP: by id, with a ttl, a wait, shares, losses, records.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tenure_core::{Locks, TicketId, TicketState};
use tenure_serve::{LockAction, LockRecord, Role, serve};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::kit::{PATIENCE, TestServer, join, store};

async fn server(locks: &Locks) -> TestServer {
    TestServer::of(serve(locks).role(Role::Lock)).await
}

/// The body of a client with this name.
fn body(client: &str, more: &Value) -> Value {
    let mut body = json!({ "id": format!("{client:-<16}"), "owner": "worker-7" });
    for (name, value) in more.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Waits until the line of `k` has this many tickets.
async fn line_has(locks: &Locks, count: usize) {
    let wait = async {
        while locks.line("k").await.unwrap().len() != count {
            sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{count} tickets"));
}

#[tokio::test]
async fn a_lock_is_taken_renewed_and_released_by_any_server_of_the_store() {
    let (_, locks) = store();
    let [one, other] = [server(&locks).await, server(&locks).await];
    let held = one.lock("POST", "k", &body("a", &json!({ "ttl_ms": 20_000, "note": "n" }))).await;
    assert_eq!(held.status, 200, "{held:?}");
    let held = held.json();
    assert_eq!((&held["state"], &held["token"]), (&json!("held"), &held["number"]));
    let left = held["expires_in_ms"].as_u64().unwrap();
    assert!((1..20_000).contains(&left), "{left}");
    // The same id again is the same hold.
    let again = other.lock("POST", "k", &body("a", &json!({ "ttl_ms": 20_000 }))).await;
    assert_eq!(again.json()["number"], held["number"]);
    let busy = other.lock("POST", "k", &body("b", &json!({}))).await;
    assert_eq!(busy.status, 423);
    assert!(!busy.value("error").is_empty() && !busy.value("cure").is_empty());
    drop(one);
    let renewal = body("a", &json!({ "number": held["number"], "note": "m" }));
    assert_eq!(other.lock("PUT", "k", &renewal).await.json()["token"], held["token"]);
    let line = locks.line("k").await.unwrap();
    assert_eq!(
        (line[0].id.to_string(), &*line[0].note),
        (held["ticket"].as_str().unwrap().into(), "m")
    );
    assert_eq!(&*line[0].owner, "local: worker-7");
    for result in ["released", "absent"] {
        assert_eq!(other.lock("DELETE", "k", &body("a", &json!({}))).await.value("result"), result);
    }
    let lost = other.lock("PUT", "k", &renewal).await;
    assert_eq!((lost.status, lost.value("cause").as_str()), (410, "gone"));
    other.end().await;
}

#[tokio::test]
async fn a_request_waits_for_its_turn_and_goes_on_with_the_same_id() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let guard = locks.mutex("k").lock().await.unwrap();
    let waiting = server.lock("POST", "k", &body("a", &json!({ "wait_ms": 1 }))).await;
    assert_eq!(waiting.status, 202, "{waiting:?}");
    let look = server.lock("POST", "k", &body("a", &json!({ "wait_ms": 0 }))).await;
    assert_eq!(look.status, 202, "it waits, and does not hold: {look:?}");
    assert_eq!(locks.line("k").await.unwrap().len(), 2, "it keeps its place");
    let wait = body("a", &json!({ "wait_ms": 30_000 }));
    let (held, ()) = tokio::join!(server.lock("POST", "k", &wait), async {
        assert_eq!(
            server
                .lock("PUT", "k", &body("a", &json!({ "number": waiting.json()["number"] })))
                .await
                .status,
            409
        );
        guard.release().await.unwrap();
    });
    assert_eq!(held.status, 200, "{held:?}");
    assert_eq!(held.json()["number"], waiting.json()["number"]);
    server.end().await;
}

#[tokio::test]
async fn the_ticket_of_a_client_that_goes_away_is_withdrawn() {
    let (memory, locks) = store();
    let server = server(&locks).await;
    join(&memory, "k", "holder").await;
    let text = body("a", &json!({ "wait_ms": 30_000 })).to_string();
    let length = text.len().to_string();
    let headers = [("Tenure-Request", "1"), ("Content-Length", length.as_str())];
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = server.head("POST", "/v1/locks/k", &headers);
    stream.write_all((head + &text).as_bytes()).await.unwrap();
    line_has(&locks, 2).await;
    drop(stream);
    line_has(&locks, 1).await;
    assert_eq!(&*locks.line("k").await.unwrap()[0].owner, "holder");
    server.end().await;
}

#[tokio::test]
async fn a_hold_that_is_not_renewed_ends_and_its_id_does_not_bring_it_back() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let held = server.lock("POST", "k", &body("a", &json!({ "ttl_ms": 1_000 }))).await.json();
    let next = server.lock("POST", "k", &body("b", &json!({ "wait_ms": 30_000 }))).await.json();
    assert!(next["token"].as_u64() > held["token"].as_u64(), "{next}");
    server.lock("DELETE", "k", &body("b", &json!({}))).await;
    // A late copy of the first request takes the lock anew: the old hold stays lost.
    assert_eq!(server.lock("POST", "k", &body("a", &json!({}))).await.status, 200);
    let renewal = body("a", &json!({ "number": held["number"] }));
    assert_eq!(server.lock("PUT", "k", &renewal).await.status, 410);
    server.end().await;
}

#[tokio::test]
async fn a_holder_that_is_asked_to_leave_is_told() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let held = server.lock("POST", "k", &body("a", &json!({}))).await.json();
    let id: TicketId = held["ticket"].as_str().unwrap().parse().unwrap();
    locks.break_ticket("k", id).await.unwrap();
    for (method, more) in [("PUT", json!({ "number": held["number"] })), ("POST", json!({}))] {
        let lost = server.lock(method, "k", &body("a", &more)).await;
        assert_eq!((lost.status, lost.value("cause").as_str()), (409, "broken"), "{method}");
    }
    assert_eq!(
        server.lock("DELETE", "k", &body("a", &json!({}))).await.value("result"),
        "released"
    );
    server.end().await;
}

#[tokio::test]
async fn readers_share_and_permits_are_counted() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let reader = json!({ "mode": "shared" });
    let permit = json!({ "permits": { "take": 2, "of": 3 } });
    for (key, client, more, status) in [
        ("k", "a", &reader, 200),
        ("k", "b", &reader, 200),
        ("k", "c", &json!({}), 423),
        ("s", "a", &permit, 200),
        ("s", "b", &permit, 423),
        ("s", "c", &reader, 400),
    ] {
        let answer = server.lock("POST", key, &body(client, more)).await;
        assert_eq!(answer.status, status, "{client}: {answer:?}");
        assert!(
            status != 200 || answer.json()["token"].is_null(),
            "only exclusive holders have it"
        );
    }
    let line = locks.line("k").await.unwrap();
    assert!(line.iter().all(|entry| entry.state == TicketState::Holding) && line.len() == 2);
    server.end().await;
}

#[tokio::test]
async fn no_second_share_of_an_id_gets_the_hold_or_the_token_of_the_first() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let shared = json!({ "mode": "shared" });
    let mut numbers = Vec::new();
    for client in ["a", "b"] {
        let held = server.lock("POST", "k", &body(client, &shared)).await;
        assert_eq!(held.status, 200, "{held:?}");
        numbers.push(held.json()["number"].clone());
    }
    for (client, number) in ["a", "b"].into_iter().zip(numbers) {
        let whole = server.lock("POST", "k", &body(client, &json!({}))).await;
        assert_eq!(whole.status, 423, "{whole:?}");
        let renewal = server.lock("PUT", "k", &body(client, &json!({ "number": number }))).await;
        assert_eq!(renewal.status, 410, "{renewal:?}");
        let release = server.lock("DELETE", "k", &body(client, &json!({}))).await;
        assert_eq!(release.value("result"), "absent");
        let release = server.lock("DELETE", "k", &body(client, &shared)).await;
        assert_eq!(release.value("result"), "released");
    }
    server.end().await;
}

#[tokio::test]
async fn locks_need_their_role_and_header_and_are_recorded_without_their_key() {
    let records: Arc<Mutex<Vec<LockRecord>>> = Arc::default();
    let (_, locks) = store();
    let kept = records.clone();
    let service = serve(&locks).on_lock(move |record| kept.lock().unwrap().push(record.clone()));
    let looking = TestServer::of(service.clone()).await;
    assert_eq!(looking.lock("POST", "k", &body("a", &json!({}))).await.status, 403);
    let server = TestServer::of(service.role(Role::Lock)).await;
    let plain = server.send(&server.head("POST", "/v1/locks/k", &[]), "").await;
    assert_eq!(plain.status, 403, "{plain:?}");
    let held = server.lock("POST", "k", &body("a", &json!({}))).await.json();
    server.lock("DELETE", "k", &body("a", &json!({}))).await;
    server.lock("PUT", "k", &body("a", &json!({ "number": held["number"] }))).await;
    server.end().await;
    let records = records.lock().unwrap();
    let seen: Vec<_> = records.iter().map(|it| (it.action, it.status)).collect();
    assert_eq!(
        seen,
        [
            (LockAction::Acquire, 403),
            (LockAction::Acquire, 200),
            (LockAction::Release, 200),
            (LockAction::Renew, 410),
        ]
    );
    assert_eq!((records[0].ticket.as_str(), &records[1].ticket), ("unread", &records[2].ticket));
    let text = serde_json::to_string(&*records).unwrap();
    assert!(!text.contains("\"k\"") && !text.contains("a---"), "neither key nor id: {text}");
}

#[tokio::test]
async fn a_server_that_ends_answers_requests_that_wait() {
    let (memory, locks) = store();
    let server = server(&locks).await;
    join(&memory, "k", "holder").await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let text = body("a", &json!({ "wait_ms": 30_000 })).to_string();
    let length = text.len().to_string();
    let headers = [("Tenure-Request", "1"), ("Content-Length", length.as_str())];
    let head = server.head("POST", "/v1/locks/k", &headers);
    let mut stream = stream;
    stream.write_all((head + &text).as_bytes()).await.unwrap();
    line_has(&locks, 2).await;
    server.end().await;
    assert_eq!(crate::kit::Answer::read(stream).await.status, 202);
}

#[tokio::test]
async fn a_store_without_leases_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let locks = tenure::connect(&format!("file:{}", folder.path().display())).await.unwrap();
    let server = server(&locks).await;
    let refused = server.lock("POST", "k", &body("a", &json!({}))).await;
    assert_eq!(refused.status, 501, "{refused:?}");
    assert!(refused.value("cure").contains("Redis"));
    server.end().await;
}
