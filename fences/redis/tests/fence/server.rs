//! A real Redis for one test, on a free port and with a folder of its own.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tempfile::TempDir;

/// Maximum starts of a server, in case another program takes its port.
const STARTS_MAX: u32 = 5;
const PATIENCE: Duration = Duration::from_secs(20);

/// A Redis server. Dropping it kills the process.
pub(super) struct Server {
    child: Child,
    port: u16,
    bus: u16,
    _folder: TempDir,
}

impl Server {
    /// Starts a server with additional settings. Returns `None` if Redis is not installed.
    pub(super) fn start(settings: &[&str]) -> Option<Self> {
        if Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("SKIPPED redis: there is no redis-server on the PATH");
            assert_ne!(std::env::var("TENURE_REQUIRE").as_deref(), Ok("all"), "redis is required");
            return None;
        }
        let started = (0..STARTS_MAX).find_map(|_| Self::try_start(settings));
        Some(started.expect("a redis-server that starts"))
    }

    fn try_start(settings: &[&str]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        // Both are bound at the same time, so they differ.
        let (one, other) = (free_port(), free_port());
        let port = one.local_addr().unwrap().port();
        let bus = other.local_addr().unwrap().port();
        drop((one, other));
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--cluster-port", &bus.to_string(), "--cluster-node-timeout", "15000"]);
        command.arg("--dir").arg(folder.path()).args(settings);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Self { child, port, bus, _folder: folder };
        server.is_up().then_some(server)
    }

    /// Waits until this process answers. Returns `false` if another program has its port.
    fn is_up(&mut self) -> bool {
        let own = format!("process_id:{}\r\n", self.child.id());
        let client = redis::Client::open(self.url()).unwrap();
        let start = Instant::now();
        while start.elapsed() < PATIENCE && self.child.try_wait().unwrap().is_none() {
            let info = client
                .get_connection_with_timeout(PATIENCE)
                .and_then(|mut conn| redis::cmd("INFO").arg("server").query::<String>(&mut conn));
            match info {
                Ok(info) => return info.contains(&own),
                // A server with a password answers with this error.
                Err(error) if error.code() == Some("NOAUTH") => return true,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        false
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the port of the Cluster bus.
    pub(super) fn bus(&self) -> u16 {
        self.bus
    }

    /// Connects with time limits for a busy machine.
    pub(super) async fn connect(&self) -> MultiplexedConnection {
        self.connect_by(&self.url()).await
    }

    /// Connects by another URL.
    pub(super) async fn connect_by(&self, url: &str) -> MultiplexedConnection {
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(PATIENCE))
            .set_connection_timeout(Some(PATIENCE));
        let client = redis::Client::open(url).unwrap();
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill(); // Fails only if the server has ended.
        let _ = self.child.wait();
    }
}

fn free_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}
