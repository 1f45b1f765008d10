//! Streams of events.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::BodyExt as _;
use tenure_core::layers::{Layer, Operation};
use tenure_core::{Error, Locks, Memory, NOTE_BYTES_MAX, Result};
use tenure_serve::{STREAMS_MAX, serve};
use tokio::net::TcpSocket;
use tokio::time::timeout;
use tower_service::Service as _;

use crate::kit::{Events, PATIENCE, server, store};

/// Takes and releases a lock: three events.
async fn lock(locks: &Locks, key: &str, note: &str) {
    locks.mutex(key).note(note).lock().await.unwrap().release().await.unwrap();
}

/// The id in the last complete text that the stream has sent.
fn last_id(text: &str) -> &str {
    text.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap()
}

#[tokio::test]
async fn an_event_arrives_at_each_stream_of_its_prefix() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let mut all = server.watch("/v1/watch", &[]).await;
    let mut jobs = server.watch("/v1/watch?prefix=jobs/", &[]).await;
    lock(&locks, "other", "").await;
    lock(&locks, "jobs/1", "a note").await;
    let seen = all.until("\"event\":\"left\",\"key\":\"jobs/1\"").await;
    assert!(seen.contains("\"key\":\"other\"") && seen.contains("\"event\":\"joined\""), "{seen}");
    let seen = jobs.until("\"event\":\"left\"").await;
    assert!(
        seen.contains("\"event\":\"served\"") && seen.contains("\"note\":\"a note\""),
        "{seen}"
    );
    assert!(seen.contains("event: ticket\ndata: ") && !seen.contains("other"), "{seen}");
    server.end().await;
}

#[tokio::test]
async fn a_client_continues_where_it_stopped() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let mut first = server.watch("/v1/watch", &[]).await;
    lock(&locks, "a", "").await;
    let seen = first.until("\"event\":\"left\"").await;
    let id = last_id(&seen).to_owned();
    lock(&locks, "b", "").await;
    first.until("\"event\":\"left\",\"key\":\"b\"").await;
    drop(first);
    let mut second = server.watch("/v1/watch", &[("Last-Event-ID", &id)]).await;
    let seen = second.until("\"event\":\"left\",\"key\":\"b\"").await;
    assert!(seen.contains("\"event\":\"joined\",\"key\":\"b\""), "{seen}");
    assert!(!seen.contains("\"key\":\"a\"") && !seen.contains("event: gap"), "{seen}");
    server.end().await;
}

#[tokio::test]
async fn a_client_of_another_process_or_of_long_ago_has_a_gap() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let mut first = server.watch("/v1/watch", &[]).await;
    lock(&locks, "a", "").await;
    let seen = first.until("\"event\":\"left\"").await;
    let id = last_id(&seen).to_owned();
    for number in 0..400 {
        let key = format!("b/{number}");
        lock(&locks, &key, "").await;
        first.until(&format!("\"event\":\"left\",\"key\":\"{key}\"")).await;
    }
    for last in [id.as_str(), "00000000-1", "garbage", &id.replace('-', "-9")] {
        let mut second = server.watch("/v1/watch", &[("Last-Event-ID", last)]).await;
        second.until("event: gap\n").await;
        lock(&locks, "c", "").await;
        second.until("\"key\":\"c\"").await;
    }
    server.end().await;
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_has_a_gap() {
    const ROUNDS: usize = 2_000;
    let (_, locks) = store();
    let server = server(&locks).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut slow =
        Events { stream: socket.connect(server.address).await.unwrap(), text: String::new() };
    let head = server.head("GET", "/v1/watch", &[]);
    tokio::io::AsyncWriteExt::write_all(&mut slow.stream, head.as_bytes()).await.unwrap();
    slow.until("id: ").await;
    let mut fast = server.watch("/v1/watch?prefix=tick", &[]).await;
    let note = "x".repeat(NOTE_BYTES_MAX);
    // More than the buffers of both sockets hold. The store's journal has all of it.
    for round in 0..ROUNDS {
        lock(&locks, "k", &note).await;
        if round % 50 == 0 {
            lock(&locks, "tick", "").await;
            let seen = fast.until("\"event\":\"left\"").await;
            assert!(!seen.contains("event: gap"), "{seen}");
            // A client that accepts nothing is disconnected.
            slow.read_some().await;
        }
    }
    slow.until("event: gap\n").await;
    lock(&locks, "now", "").await;
    slow.until("\"key\":\"now\"").await;
    server.end().await;
}

/// Counts the requests for events.
struct Counting(Memory, Arc<AtomicUsize>);

impl Layer for Counting {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    async fn intercept<T: Send>(
        &self,
        operation: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        if matches!(operation, Operation::Events(..)) {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        ask.await
    }
}

#[tokio::test]
async fn a_thousand_streams_share_one_watch_and_one_more_is_refused() {
    let asked = Arc::new(AtomicUsize::new(0));
    let locks = Locks::new(Counting(Memory::new(), asked.clone()));
    let mut service = serve(&locks);
    let mut open = async || {
        let request = http::Request::get("/v1/watch").header("Host", "localhost");
        let request = request.body(String::new()).unwrap();
        service.call(request).await.unwrap()
    };
    let mut streams = Vec::new();
    for _ in 0..STREAMS_MAX {
        let stream = open().await;
        assert_eq!(stream.status(), 200);
        streams.push(stream.into_body());
    }
    assert_eq!(open().await.status(), 503);
    lock(&locks, "k", "").await;
    for stream in &mut streams {
        let mut text = String::new();
        while !text.contains("\"event\":\"left\"") {
            let frame = stream.frame().await.unwrap().unwrap();
            text += &String::from_utf8_lossy(frame.data_ref().unwrap());
        }
    }
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked < 20, "{asked} requests for three events");
    drop(streams.pop());
    assert_eq!(open().await.status(), 200);
}

/// Refuses the first watch for ever, and accepts the next one.
struct RefusesOnce(Memory, AtomicUsize);

impl Layer for RefusesOnce {
    type Inner = Memory;

    fn inner(&self) -> &Memory {
        &self.0
    }

    async fn intercept<T: Send>(
        &self,
        operation: Operation<'_>,
        ask: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        // The first request begins the watch, and the second one reads it.
        if matches!(operation, Operation::Events(..)) && self.1.fetch_add(1, Ordering::Relaxed) == 1
        {
            return Err(Error::unsupported("a refusal"));
        }
        ask.await
    }
}

#[tokio::test]
async fn streams_survive_a_refusal_of_the_store_and_end_when_the_locks_are_closed() {
    let (memory, others) = store();
    let locks = Locks::new(RefusesOnce(memory, AtomicUsize::new(0)));
    let server = server(&locks).await;
    let mut first = server.watch("/v1/watch", &[]).await;
    first.until("event: trouble\ndata: ").await;
    first.until("event: gap\n").await;
    let mut second = server.watch("/v1/watch", &[]).await;
    lock(&locks, "k", "").await;
    first.until("\"event\":\"left\"").await;
    second.until("\"event\":\"left\"").await;
    locks.close().await;
    // The watch learns it with the next event.
    lock(&others, "k", "").await;
    for stream in [&mut first, &mut second] {
        let mut rest = Vec::new();
        let end = tokio::io::AsyncReadExt::read_to_end(&mut stream.stream, &mut rest);
        timeout(PATIENCE, end).await.expect("the stream ends").unwrap();
    }
    server.end().await;
}

#[tokio::test]
async fn a_silent_stream_has_a_heartbeat() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let mut stream = server.watch("/v1/watch", &[]).await;
    stream.until(": alive\n").await;
    server.end().await;
}

#[tokio::test]
async fn streams_end_with_the_server() {
    let (_, locks) = store();
    let server = server(&locks).await;
    let mut streams = [server.watch("/v1/watch", &[]).await, server.watch("/v1/watch", &[]).await];
    server.end().await;
    for stream in &mut streams {
        let mut rest = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut stream.stream, &mut rest).await.unwrap();
    }
}
