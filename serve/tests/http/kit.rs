//! Helpers of the tests: a server on a free port, and a client that shows each byte.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tenure_core::{Engine, Key, Locks, Memory, Share, TTL_MAX, Ticket, TicketId, WaitMode};
use tenure_serve::{HttpServer, Mounts, serve};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Time limit for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A server for one test.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl TestServer {
    pub(crate) async fn of(service: impl Into<Mounts>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let until = async { drop(ended.await) };
        let task = tokio::spawn(HttpServer::new(service).serve_tcp(listener, until));
        Self { address, end, task }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(&self.head("GET", path, headers), "").await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Sends a break with its header.
    pub(crate) async fn break_ticket(&self, key: &str, body: &Value) -> Answer {
        self.post(key, &body.to_string(), &[("Tenure-Request", "1")]).await
    }

    pub(crate) async fn post(&self, key: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        let length = body.len().to_string();
        let headers = [headers, &[("Content-Length", length.as_str())]].concat();
        self.send(&self.head("POST", &format!("/v1/lines/{key}/break"), &headers), body).await
    }

    /// Sends a request about a lock with its header.
    pub(crate) async fn lock(&self, method: &str, key: &str, body: &Value) -> Answer {
        let (body, path) = (body.to_string(), format!("/v1/locks/{key}"));
        let length = body.len().to_string();
        let headers = [("Tenure-Request", "1"), ("Content-Length", length.as_str())];
        self.send(&self.head(method, &path, &headers), &body).await
    }

    /// The head of a request for one answer. A Host among the headers replaces the server's own.
    pub(crate) fn head(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Host") {
            head.extend(["Host: ", &self.address.to_string(), "\r\n"]);
        }
        for (name, value) in headers {
            head.extend([*name, ": ", *value, "\r\n"]);
        }
        head + "\r\n"
    }

    pub(crate) async fn send(&self, head: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(body.as_bytes()).await.unwrap();
        Answer::read(stream).await
    }

    /// Opens a stream of events.
    pub(crate) async fn watch(&self, path: &str, headers: &[(&str, &str)]) -> Events {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(self.head("GET", path, headers).as_bytes()).await.unwrap();
        let mut events = Events { stream, text: String::new() };
        let head = events.until("id: ").await.to_lowercase();
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        assert!(head.contains("x-accel-buffering: no"), "{head}");
        events
    }

    /// Ends the server, and waits until it has ended.
    pub(crate) async fn end(self) {
        self.end.send(()).unwrap();
        timeout(PATIENCE, self.task).await.expect("it ends").unwrap();
    }
}

impl Answer {
    pub(crate) async fn read(mut stream: impl AsyncRead + Unpin) -> Self {
        let mut bytes = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an answer").unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        Self {
            status: status.unwrap_or_else(|| panic!("{head}")),
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    pub(crate) fn value(&self, name: &str) -> String {
        let value: Value = serde_json::from_str(&self.body).unwrap();
        value[name].as_str().unwrap_or_else(|| panic!("{name} in {self:?}")).to_owned()
    }
}

/// A stream of events, whose bytes are kept from the head on.
pub(crate) struct Events<S = TcpStream> {
    pub(crate) stream: S,
    pub(crate) text: String,
}

impl<S: AsyncRead + Unpin> Events<S> {
    /// Reads what has arrived, up to 4 KiB.
    pub(crate) async fn read_some(&mut self) {
        let mut bytes = [0; 4_096];
        let length = self.stream.read(&mut bytes).await.unwrap();
        assert!(length > 0, "the stream ended");
        self.text += &String::from_utf8_lossy(&bytes[..length]);
    }

    /// Reads until this text has arrived, and returns all before it. Later reads begin behind it.
    pub(crate) async fn until(&mut self, wanted: &str) -> String {
        let read = async {
            let mut searched = 0;
            loop {
                let found = self.text[searched..].find(wanted).map(|at| searched + at);
                if let Some(at) = found {
                    let rest = self.text.split_off(at + wanted.len());
                    return std::mem::replace(&mut self.text, rest);
                }
                searched = self.text.len().saturating_sub(wanted.len());
                self.read_some().await;
            }
        };
        timeout(PATIENCE, read).await.unwrap_or_else(|_| panic!("no {wanted:?} arrived"))
    }
}

/// A memory store with its engine, for tickets of other programs.
pub(crate) fn store() -> (Memory, Locks) {
    let memory = Memory::new();
    (memory.clone(), Locks::new(memory))
}

pub(crate) async fn server(locks: &Locks) -> TestServer {
    TestServer::of(serve(locks)).await
}

/// Puts a ticket of another program into a line.
pub(crate) async fn join(memory: &Memory, key: &str, owner: &str) -> TicketId {
    let ticket = Ticket::new(Key::new(key).unwrap(), Share::WHOLE).with_owner(owner).unwrap();
    // No program renews it.
    let ticket = Ticket { ttl: TTL_MAX, ..ticket };
    memory.join(&ticket, WaitMode::Wait).await.unwrap();
    ticket.id
}
