//! Helpers of the tests: servers over one Redis, and programs that use the clients.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use tenure_core::Locks;
use tenure_serve::{HttpServer, Role, serve};
use tenure_servers::redis::{REDIS, Server};
use tenure_servers::{Tool, have};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Time limit for a condition.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Two services of the same store.
pub(crate) struct Site {
    pub(crate) locks: Locks,
    pub(crate) servers: [TestServer; 2],
    _redis: Server,
}

/// A service, with connections of its own to the store.
pub(crate) struct TestServer {
    address: SocketAddr,
    store: String,
    task: JoinHandle<()>,
}

impl Site {
    /// `None`, with a message, where Redis or one of these tools is absent.
    pub(crate) async fn new(needs: &[Tool]) -> Option<Self> {
        if !have(&[&[REDIS], needs].concat()) {
            return None;
        }
        let redis = Server::start().unwrap();
        let (url, any) = (redis.url(), "127.0.0.1:0".parse().unwrap());
        let servers = [TestServer::start(&url, any).await, TestServer::start(&url, any).await];
        Some(Self { locks: tenure::connect(&url).await.unwrap(), servers, _redis: redis })
    }
}

impl TestServer {
    async fn start(store: &str, address: SocketAddr) -> Self {
        let service = serve(&tenure::connect(store).await.unwrap()).role(Role::Lock);
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = HttpServer::new(service).serve_tcp(listener, std::future::pending());
        Self { address, store: store.to_owned(), task: tokio::spawn(server) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends the service without a farewell, and starts another one at its address.
    pub(crate) async fn replace(&mut self) {
        self.task.abort();
        // It is gone, and its address is free.
        let _ = (&mut self.task).await;
        *self = Self::start(&self.store, self.address).await;
    }
}

/// A program of the folder of these tests, which drop kills.
pub(crate) struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn new(interpreter: &str, file: &str, arguments: &[&str]) -> Self {
        let home = env!("CARGO_MANIFEST_DIR");
        let mut child = Command::new(interpreter)
            .arg(format!("{home}/tests/clients/{file}"))
            .args(arguments)
            .env("PYTHONPATH", format!("{home}/clients"))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    pub(crate) fn python(file: &str, arguments: &[&str]) -> Self {
        Self::new("python3", file, arguments)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn succeeds(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}
