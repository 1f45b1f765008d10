//! One process of etcd, with its ports and its folder.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::folder::Folder;
use crate::port::Port;
use crate::process::Process;
use crate::{Certificates, Result};

/// Time limit of an answer about a member's health.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// A member: one process of etcd.
#[derive(Debug)]
pub struct Member {
    process: Process,
    client: Port,
    peer: Port,
    metrics: Port,
    folder: Folder,
}

/// The ports and the folder of a member that is not started yet.
pub(super) struct Site {
    name: String,
    client: Port,
    peer: Port,
    metrics: Port,
    folder: Folder,
}

impl Site {
    /// Claims the site of the member with this number.
    pub(super) fn claim(at: usize) -> Result<Self> {
        let (client, peer, metrics) = (Port::claim()?, Port::claim()?, Port::claim()?);
        Ok(Self { name: format!("m{at}"), client, peer, metrics, folder: Folder::quick("etcd")? })
    }

    /// Returns the member's part of the option `--initial-cluster`.
    pub(super) fn as_peer(&self) -> String {
        format!("{}=http://127.0.0.1:{}", self.name, self.peer.number())
    }

    /// Returns the command that starts the member.
    pub(super) fn command(
        &self,
        program: &Path,
        peers: &str,
        certificates: Option<&Certificates>,
    ) -> Command {
        let scheme = if certificates.is_some() { "https" } else { "http" };
        let client = format!("{scheme}://127.0.0.1:{}", self.client.number());
        let peer = format!("http://127.0.0.1:{}", self.peer.number());
        let metrics = format!("http://127.0.0.1:{}", self.metrics.number());
        let mut command = Command::new(program);
        command.args(["--name", &self.name, "--logger", "zap", "--log-level", "warn"]);
        command.arg("--data-dir").arg(self.folder.path().join("data"));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", peers, "--initial-cluster-token", peers]);
        command.args(["--listen-metrics-urls", &metrics]);
        // A busy machine must not count as a lost member.
        command.args(["--heartbeat-interval", "100", "--election-timeout", "1000"]);
        if let Some(certificates) = certificates {
            command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(certificates.ca());
            command.arg("--cert-file").arg(certificates.server());
            command.arg("--key-file").arg(certificates.server_key());
        }
        command
    }

    /// Returns the member that this command starts.
    pub(super) fn member(self, command: Command) -> Result<Member> {
        let Self { client, peer, metrics, folder, .. } = self;
        let name = format!("etcd at 127.0.0.1:{}", client.number());
        let process = Process::new(name, command, folder.path().join("log"))?;
        Ok(Member { process, client, peer, metrics, folder })
    }
}

impl Member {
    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.client.number()
    }

    pub(super) fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer.number())
    }

    /// The folder of its log and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The pid of its process, while the process runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// Kills the process. The server keeps its ports and its folder.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Starts the member, and waits until it reports its cluster as healthy.
    pub fn restart(&self) -> Result<()> {
        self.process.start(|| match self.get("/health") {
            Some(health) if health.contains(r#""health":"true""#) => Ok(()),
            _ => Err("It is not healthy yet.".into()),
        })
    }

    /// Starts the member without waiting for its cluster.
    pub fn begin(&self) -> Result<()> {
        self.process.start(|| {
            self.get("/metrics").map(drop).ok_or_else(|| "It does not answer yet.".into())
        })
    }

    /// Freezes the process.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Resumes the process.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// Returns a metric of the member, summed over all labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.sum(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])))
    }

    /// Returns the number of requests of this method, with each message of a stream.
    pub fn requests(&self, method: &str) -> u64 {
        let label = format!("grpc_method=\"{method}\"");
        let is_of = |line: &str| {
            line.starts_with("grpc_server_msg_received_total{") && line.contains(&label)
        };
        // The count is a whole number, printed with an exponent above some millions.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        self.sum(is_of).map_or(0, |sum| sum as u64)
    }

    fn sum(&self, is_of: impl Fn(&str) -> bool) -> Option<f64> {
        let all = self.get("/metrics")?;
        let numbers = all.lines().filter(|line| is_of(line));
        let numbers: Vec<f64> =
            numbers.filter_map(|line| line.rsplit(' ').next()?.parse().ok()).collect();
        (!numbers.is_empty()).then(|| numbers.iter().sum())
    }

    fn get(&self, path: &str) -> Option<String> {
        get(self.metrics.number(), path)
    }
}

/// Returns the answer of an HTTP server at this port.
pub(super) fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
