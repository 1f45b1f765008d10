//! Keys, lines, guarantees, health, and the page.

use serde_json::json;
use tenure_core::{Locks, Memory};

use crate::kit::{join, server, store};

#[tokio::test]
async fn a_line_is_shown_from_the_front() {
    let (memory, locks) = store();
    let (front, waiter) =
        (join(&memory, "a/ü 1", "web-3").await, join(&memory, "a/ü 1", "web-4").await);
    let guard = locks.semaphore("pool", 5).note("release").acquire_many(2).await.unwrap();
    let server = server(&locks).await;
    let line = server.json("/v1/lines/a%2F%C3%BC%201").await;
    assert_eq!((&line["key"], &line["total"]), (&json!("a/ü 1"), &json!(2)));
    let [holder, next] = [&line["tickets"][0], &line["tickets"][1]];
    assert_eq!(holder["ticket"], json!(front.to_string()));
    assert_eq!(next["ticket"], json!(waiter.to_string()));
    for (ticket, position, state, owner) in
        [(holder, 1, "holding", "web-3"), (next, 2, "waiting", "web-4")]
    {
        assert_eq!(ticket["position"], json!(position));
        assert_eq!((&ticket["state"], &ticket["owner"]), (&json!(state), &json!(owner)));
        assert_eq!((&ticket["kind"], &ticket["permits"]), (&json!("exclusive"), &json!(null)));
        assert!(ticket["expires_in_ms"].as_u64().unwrap() <= ticket["ttl_ms"].as_u64().unwrap());
    }
    assert!(holder["number"].as_u64() < next["number"].as_u64());
    let pool = &server.json("/v1/lines/pool").await["tickets"][0];
    assert_eq!(pool["permits"], json!({ "take": 2, "of": 5 }));
    assert_eq!(pool["note"], json!("release"));
    assert_eq!(server.json("/v1/lines/free").await["total"], json!(0));
    drop(guard);
    server.end().await;
}

#[tokio::test]
async fn ten_thousand_keys_are_read_page_by_page() {
    const KEYS: usize = 10_000;
    let (memory, locks) = store();
    for number in 0..KEYS {
        join(&memory, &format!("jobs/{number:05}"), "worker").await;
    }
    join(&memory, "other", "worker").await;
    join(&memory, "jobs/00000", "waiter").await;
    let server = server(&locks).await;
    let (mut after, mut seen) = (String::new(), Vec::new());
    loop {
        let page = server.json(&format!("/v1/keys?prefix=jobs/&limit=500&after={after}")).await;
        assert_eq!((&page["total"], &page["before"]), (&json!(KEYS), &json!(seen.len())));
        let keys = page["keys"].as_array().unwrap();
        assert!((1..=500).contains(&keys.len()), "{}", keys.len());
        assert!(keys.iter().all(|key| key["holding"] == json!(1)));
        seen.extend(keys.iter().map(|key| key["key"].as_str().unwrap().to_owned()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    let expected: Vec<_> = (0..KEYS).map(|number| format!("jobs/{number:05}")).collect();
    assert_eq!(seen, expected);
    let first = &server.json("/v1/keys?prefix=jobs/&limit=1").await["keys"][0];
    assert_eq!((&first["waiting"], &first["holders"][0]["owner"]), (&json!(1), &json!("worker")));
    // The page has only its own part of them.
    let page = server.get("/").await.body;
    assert!(page.contains("1 to 50 of 10001 keys"), "{page}");
    server.end().await;
}

#[tokio::test]
async fn the_store_tells_its_guarantees_and_its_health() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let guarantees = server.json("/v1/guarantees").await;
    for (name, value) in [
        ("engine", json!("memory")),
        ("in_order", json!(true)),
        ("events", json!("every")),
        ("tokens", json!("volatile")),
        ("store_crash", json!(false)),
    ] {
        assert_eq!(guarantees[name], value, "{name}");
    }
    assert_eq!(server.json("/v1/health").await["healthy"], json!(true));
    server.end().await;
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_not_healthy() {
    let (_, locks) = store();
    locks.close().await;
    let server = server(&locks).await;
    let health = server.get("/v1/health").await;
    assert_eq!(health.status, 503);
    assert!(!health.value("error").is_empty());
    assert!(server.get("/v1/keys").await.status >= 400);
    let page = server.get("/").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("not healthy"));
    server.end().await;
}

#[tokio::test]
async fn other_requests_are_refused() {
    let (_, locks) = store();
    let server = server(&locks).await;
    for (path, status) in [
        ("/v1", 404),
        ("/v1/lines/", 400),
        ("/v1/lines/a/b", 404),
        ("/v1/lines/%ff", 400),
        ("/v1/keys?limit=0", 400),
        ("/v1/keys?colour=red", 400),
        ("/../etc/passwd", 404),
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert!(!answer.value("error").is_empty());
    }
    for method in ["PUT", "DELETE", "OPTIONS"] {
        assert_eq!(server.send(&server.head(method, "/v1/keys", &[]), "").await.status, 405);
    }
    server.end().await;
}

#[tokio::test]
async fn the_page_is_readable_without_its_script_and_loads_nothing_else() {
    let (memory, locks) = store();
    let key = "<script>alert(1)</script>";
    join(&memory, key, "\"><img src=x>").await;
    join(&memory, key, "waiter\u{202e}").await;
    let server = server(&locks).await;
    let page = server.get("/?key=%3Cscript%3Ealert(1)%3C%2Fscript%3E").await;
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-security-policy: default-src 'self';"), "{}", page.head);
    assert!(!page.body.contains(key) && !page.body.contains("<img") && !page.body.contains("{{"));
    assert!(page.body.contains("&lt;script&gt;alert(1)&lt;/script&gt;</a></th>"));
    // The line of the key is below the table.
    assert!(page.body.contains("<td>waiting</td><td>waiter\u{fffd}</td>"), "{}", page.body);
    for (path, kind) in
        [("/page.css", "text/css"), ("/page.js", "text/javascript"), ("/icon.svg", "image/svg+xml")]
    {
        let file = server.get(path).await;
        assert_eq!(file.status, 200, "{path}");
        assert!(file.head.contains(&format!("content-type: {kind}")), "{}", file.head);
        assert!(file.head.contains("x-content-type-options: nosniff"));
    }
    server.end().await;
}

#[tokio::test]
async fn a_file_store_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("file:{}", dir.path().join("store").display());
    let locks: Locks = tenure::connect(&url).await.unwrap();
    let guard = locks.with_owner("backup").unwrap().mutex("nightly").lock().await.unwrap();
    let server = server(&locks).await;
    let row = &server.json("/v1/keys").await["keys"][0];
    assert_eq!((&row["key"], &row["holders"][0]["owner"]), (&json!("nightly"), &json!("backup")));
    assert_eq!(row["holders"][0]["expires_in_ms"], json!(null));
    assert_eq!(row["holders"][0]["number"], json!(guard.token().get()));
    guard.release().await.unwrap();
    // The list may be half a second old.
    while server.json("/v1/keys").await["total"] != json!(0) {
        tokio::task::yield_now().await;
    }
    server.end().await;
    locks.close().await;
}

#[tokio::test]
async fn the_service_is_mounted_in_another_server() {
    use tower_service::Service as _;

    // As routers ask for.
    fn check<S: Clone + Send + Sync + 'static>(service: S) -> S {
        service
    }
    let mut service = check(tenure_serve::serve(&Locks::new(Memory::new())));
    // The path of the mount was stripped, and the body is of another type.
    let request = http::Request::get("/v1/health").header("Host", "localhost");
    let request = request.body(String::new()).unwrap();
    assert_eq!(service.call(request).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_key_that_a_browser_removes_from_a_path_is_in_the_query() {
    let (memory, locks) = store();
    join(&memory, "..", "holder").await;
    let server = server(&locks).await;
    let line = server.json("/v1/lines/-?key=..").await;
    assert_eq!((&line["key"], &line["total"]), (&"..".into(), &1.into()));
    for path in ["/v1/lines/a?key=..", "/v1/lines/-?key=a"] {
        assert_eq!(server.get(path).await.status, 400, "{path}");
    }
    server.end().await;
}
