//! Sizes and times of requests.

use tenure_serve::{Role, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::kit::{Answer, PATIENCE, TestServer, server, store};

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let (_, locks) = store();
    let server = TestServer::of(serve(&locks).role(Role::Ask)).await;
    let marked = [("Tenure-Request", "1")];
    assert_eq!(server.post("k", &"x".repeat(5_000), &marked).await.status, 413);
    let path = format!("/v1/keys?prefix={}", "x".repeat(11_000));
    assert_eq!(server.get(&path).await.status, 414);
    assert_eq!(server.get_with("/", &[("Cookie", &"x".repeat(20_000))]).await.status, 431);
    let names: Vec<_> = (0..100).map(|number| format!("X-{number}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "x")).collect();
    assert_eq!(server.get_with("/", &many).await.status, 431);
    // The server still serves.
    assert_eq!(server.get("/v1/health").await.status, 200);
    server.end().await;
}

#[tokio::test]
async fn a_client_that_sends_nothing_more_is_disconnected() {
    let (_, locks) = store();
    let server = TestServer::of(serve(&locks).role(Role::Ask)).await;
    let open = async |text: &str| {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    };
    let silent = open("").await;
    let half = open("GET /v1/keys HTTP/1.1\r\nHost: ").await;
    let idle = open(&format!("GET /v1/health HTTP/1.1\r\nHost: {}\r\n\r\n", server.address)).await;
    let headers = [("Tenure-Request", "1"), ("Content-Length", "100")];
    let body = open(&(server.head("POST", "/v1/lines/k/break", &headers) + "{")).await;
    assert_eq!(Answer::read(body).await.status, 408);
    for mut stream in [silent, half, idle] {
        let mut rest = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("the end").unwrap();
    }
    server.end().await;
}

#[tokio::test]
async fn a_connection_serves_several_requests() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let one = format!("GET /v1/health HTTP/1.1\r\nHost: {}\r\n\r\n", server.address);
    let last = server.head("GET", "/v1/health", &[]);
    stream.write_all((one.repeat(3) + &last).as_bytes()).await.unwrap();
    let mut all = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut all)).await.expect("the answers").unwrap();
    assert_eq!(all.matches("\"healthy\":true").count(), 4, "{all}");
    server.end().await;
}
