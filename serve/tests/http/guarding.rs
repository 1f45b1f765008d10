//! Host, Origin, the header of a request, tokens, trusted headers.

use http::HeaderName;
use serde_json::json;
use tenure_core::{Locks, TicketId};
use tenure_serve::{Role, Visitor, serve};

use crate::kit::{TestServer, join, store};

const TOKEN: &str = "0123456789abcdef";

fn local(locks: &Locks) -> tenure_serve::Serve {
    serve(locks).role(Role::Ask)
}

#[tokio::test]
async fn a_name_of_another_host_is_refused() {
    let (_, locks) = store();
    let server = TestServer::of(local(&locks)).await;
    for path in ["/", "/v1/keys", "/v1/watch", "/page.js"] {
        let answer = server.get_with(path, &[("Host", "evil.example")]).await;
        assert_eq!(answer.status, 421, "{path}");
    }
    assert_eq!(server.get_with("/v1/keys", &[("Host", "localhost:80")]).await.status, 200);
    server.end().await;
}

#[tokio::test]
async fn a_page_of_another_origin_cannot_break() {
    let (memory, locks) = store();
    let id = join(&memory, "k", "holder").await;
    let number = locks.line("k").await.unwrap()[0].number;
    let server = TestServer::of(local(&locks)).await;
    let body = json!({ "ticket": id.to_string(), "number": number }).to_string();
    let marked = ("Tenure-Request", "1");
    let own = format!("http://{}", server.address);
    for headers in [
        vec![],
        vec![("Tenure-Request", "2")],
        vec![("Origin", own.as_str())],
        vec![marked, ("Origin", "http://evil.example")],
        vec![marked, ("Origin", "http://127.0.0.1:1")],
        vec![marked, ("Origin", "null")],
        vec![marked, ("Origin", own.as_str()), ("Host", "evil.example")],
    ] {
        let status = server.post("k", &body, &headers).await.status;
        assert!(matches!(status, 403 | 421), "{headers:?}: {status}");
    }
    assert_eq!(locks.line("k").await.unwrap()[0].label(), "holding");
    let answer = server.post("k", &body, &[marked, ("Origin", own.as_str())]).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(locks.line("k").await.unwrap()[0].label(), "leaving");
    server.end().await;
}

#[tokio::test]
async fn a_page_of_another_site_loads_nothing_but_its_links_work() {
    let (_, locks) = store();
    let server = TestServer::of(local(&locks)).await;
    let from = |site| ("Sec-Fetch-Site", site);
    for (site, destination, status) in [
        (from("cross-site"), "image", 403),
        (from("cross-site"), "iframe", 403),
        (from("cross-site"), "document", 200),
        (from("same-origin"), "empty", 200),
        (from("none"), "document", 200),
    ] {
        let headers = [site, ("Sec-Fetch-Dest", destination)];
        let answer = server.get_with("/v1/keys?prefix=a", &headers).await;
        assert_eq!(answer.status, status, "{site:?} {destination}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_preflight_gets_no_permission() {
    let (_, locks) = store();
    let server = TestServer::of(local(&locks)).await;
    let headers = [
        ("Origin", "http://evil.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "tenure-request"),
    ];
    let answer = server.send(&server.head("OPTIONS", "/v1/lines/k/break", &headers), "").await;
    assert_eq!(answer.status, 405);
    assert!(answer.head.contains("allow: post\r\n"), "{}", answer.head);
    assert!(!answer.head.contains("access-control"), "{}", answer.head);
    server.end().await;
}

#[tokio::test]
async fn without_the_token_nothing_is_served() {
    let (_, locks) = store();
    let (records, counted) = std::sync::mpsc::channel();
    let service = serve(&locks).token(TOKEN).on_wrong_token(move |it| {
        records.send(it.clone()).unwrap();
    });
    let server = TestServer::of(service).await;
    for path in ["/", "/v1/keys", "/v1/watch", "/page.css", "/v1/health"] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.head.contains("www-authenticate: basic"), "{}", answer.head);
    }
    let bearer = format!("Bearer {TOKEN}");
    for (value, status) in [
        (bearer.as_str(), 200),
        // The password of `ana`, as a browser sends it.
        ("Basic YW5hOjAxMjM0NTY3ODlhYmNkZWY=", 200),
        ("Bearer 0123456789abcdeg", 401),
        ("Bearer 0123456789abcde", 401),
    ] {
        assert_eq!(
            server.get_with("/", &[("Authorization", value)]).await.status,
            status,
            "{value}"
        );
    }
    // A browser's first request, which has no token, is no wrong one.
    let record = counted.try_recv().unwrap();
    assert_eq!(record.count, 1);
    assert!(record.from.unwrap().starts_with("127.0.0.1:"));
    server.end().await;
}

#[tokio::test]
async fn a_refused_client_holds_no_connection() {
    let (_, locks) = store();
    let server = TestServer::of(local(&locks).token(TOKEN)).await;
    let bearer = format!("localhost\r\nAuthorization: Bearer {TOKEN}");
    for (request, host, status) in [
        ("GET /v1/keys", "localhost", 401),
        ("GET /v1/keys", "evil.example", 421),
        ("POST /v1/lines/k/break", bearer.as_str(), 403),
    ] {
        let head = format!("{request} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let answer = server.send(&head, "").await;
        assert_eq!(answer.status, status);
        assert!(answer.head.contains("connection: close"), "{}", answer.head);
    }
    server.end().await;
}

#[tokio::test]
async fn a_proxy_names_the_visitor() {
    let (_, locks) = store();
    let header = HeaderName::from_static("x-forwarded-user");
    let server = TestServer::of(serve(&locks).trust_header(header)).await;
    let user = ("X-Forwarded-User", "ana");
    assert_eq!(server.get("/v1/keys").await.status, 403);
    assert_eq!(server.get_with("/v1/keys", &[user, user]).await.status, 403);
    assert_eq!(server.get_with("/v1/keys", &[user]).await.status, 200);
    server.end().await;
}

#[tokio::test]
async fn a_server_of_ones_own_names_visitor_and_role() {
    use tower_service::Service as _;

    let (_, locks) = store();
    let mut service = serve(&locks).token(TOKEN);
    for (role, status) in [(Role::Look, 403), (Role::Ask, 200)] {
        let body = json!({ "ticket": TicketId::fresh().to_string(), "number": 1 });
        let mut request = http::Request::post("/v1/lines/k/break")
            .header("Host", "localhost")
            .header("Tenure-Request", "1")
            .body(body.to_string())
            .unwrap();
        request.extensions_mut().insert(Visitor::new("ana", role));
        assert_eq!(service.call(request).await.unwrap().status(), status, "{role:?}");
    }
}
