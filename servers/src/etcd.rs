//! A cluster of etcd: one member alone, or several.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::folder::Folder;
use crate::port::Port;
use crate::process::Process;
use crate::{Certificates, Deployment, Result, Store, Tool};

/// The server, 3.4 or later.
pub const ETCD: Tool = Tool::program("etcd", "etcd-server");
/// The operator's program.
pub const ETCDCTL: Tool = Tool::program("etcdctl", "etcd-client");

/// How long a member may take to say whether it is well.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// The password of the one who may do everything, where there are users.
const ROOT_PASSWORD: &str = "of-root";

/// Each with its variable.
pub(crate) const DEPLOYMENTS: [Deployment; 4] = [
    Deployment {
        name: "etcd",
        variable: "TENURE_TEST_ETCD_URL",
        needs: &[ETCD],
        start: || Ok(Box::new(Cluster::of(1)?)),
    },
    Deployment {
        name: "etcd-three",
        variable: "TENURE_TEST_ETCD_THREE_URL",
        needs: &[ETCD],
        start: || Ok(Box::new(Cluster::of(3)?)),
    },
    Deployment {
        name: "etcd-tls",
        variable: "TENURE_TEST_ETCD_TLS_URL",
        needs: &[ETCD],
        start: || Ok(Box::new(Cluster::with_tls(1)?)),
    },
    Deployment {
        name: "etcd-users",
        variable: "TENURE_TEST_ETCD_USERS_URL",
        needs: &[ETCD, ETCDCTL],
        start: || Ok(Box::new(Cluster::with_users(1, "tenure", "locks", "secret")?)),
    },
];

/// Members that are one cluster. Dropping it kills them and removes their folders.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    /// Its members, as each is told of the others.
    peers: String,
    certificates: Option<Certificates>,
    /// The user and the password of an engine.
    login: Option<(String, String)>,
}

/// One process of etcd.
#[derive(Debug)]
pub struct Member {
    process: Process,
    client: Port,
    peer: Port,
    metrics: Port,
    folder: Folder,
}

impl Cluster {
    /// So many members.
    pub fn of(members: usize) -> Result<Self> {
        Self::start(members, None, &[])
    }

    /// One member that may keep so many bytes, and raises its alarm when there are more.
    pub fn with_quota(bytes: u32) -> Result<Self> {
        Self::start(1, None, &["--quota-backend-bytes", &bytes.to_string()])
    }

    /// Members that speak TLS, and want to see a certificate.
    pub fn with_tls(members: usize) -> Result<Self> {
        Self::start(members, Some(Certificates::new()?), &[])
    }

    /// Members that know users: one may do what it likes with the keys that begin with `prefix`, and nothing else.
    pub fn with_users(members: usize, prefix: &str, user: &str, password: &str) -> Result<Self> {
        // Each test makes many clients, and each of those has its password checked.
        let mut cluster = Self::start(members, None, &["--bcrypt-cost", "4"])?;
        let prefix = format!("{prefix}/");
        for words in [
            &["user", "add", &format!("root:{ROOT_PASSWORD}")][..],
            &["user", "grant-role", "root", "root"],
            &["role", "add", "locks"],
            &["role", "grant-permission", "locks", "--prefix=true", "readwrite", &prefix],
            &["user", "add", &format!("{user}:{password}")],
            &["user", "grant-role", user, "locks"],
            &["auth", "enable"],
        ] {
            cluster.ctl(words)?;
        }
        cluster.login = Some((user.to_owned(), password.to_owned()));
        Ok(cluster)
    }

    /// The members, in the order of their names.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member that leads now.
    pub fn leader(&self) -> Result<&Member> {
        let leads =
            |member: &&Member| member.metric("etcd_server_is_leader").is_some_and(|it| it > 0.5);
        self.members.iter().find(leads).ok_or_else(|| "No member of etcd leads.".into())
    }

    /// A member that follows.
    pub fn follower(&self) -> Result<&Member> {
        let leader = self.leader()?.port();
        let follows = |member: &&Member| member.port() != leader;
        self.members.iter().find(follows).ok_or_else(|| "No member of etcd follows.".into())
    }

    /// What an operator asks with etcdctl, as root where there are users.
    pub fn ctl(&self, words: &[&str]) -> Result<String> {
        let program = ETCDCTL.found().ok_or_else(|| ETCDCTL.absent().unwrap_or_default())?;
        let mut command = Command::new(program);
        command.env("ETCDCTL_API", "3").arg(format!("--endpoints={}", self.endpoints()));
        if self.login.is_some() {
            command.arg(format!("--user=root:{ROOT_PASSWORD}"));
        }
        if let Some(certificates) = &self.certificates {
            command.arg(format!("--cacert={}", certificates.ca().display()));
            command.arg(format!("--cert={}", certificates.client().display()));
            command.arg(format!("--key={}", certificates.client_key().display()));
        }
        let output = command.args(words).output();
        let output = output.map_err(|error| format!("etcdctl cannot be started: {error}."))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("etcdctl {} failed: {said}", words.join(" ")));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn endpoints(&self) -> String {
        let scheme = if self.certificates.is_some() { "https" } else { "http" };
        let url = |member: &Member| format!("{scheme}://127.0.0.1:{}", member.port());
        self.members.iter().map(url).collect::<Vec<_>>().join(",")
    }

    /// Saves what the only member keeps now, in its folder.
    pub fn save(&self) -> Result<PathBuf> {
        let [member] = &self.members[..] else { return Err("One member alone is saved.".into()) };
        let snapshot = member.folder().join("snapshot");
        self.ctl(&["snapshot", "save", &snapshot.display().to_string()])?;
        Ok(snapshot)
    }

    /// Puts what was saved in the place of what the only member keeps, as after the loss of a disk.
    pub fn restore(&self, snapshot: &Path) -> Result<()> {
        let [member] = &self.members[..] else {
            return Err("One member alone is restored.".into());
        };
        member.kill()?;
        let data = member.folder().join("data");
        fs::remove_dir_all(&data).map_err(|error| format!("The data stays: {error}."))?;
        let (file, data) = (snapshot.display().to_string(), data.display().to_string());
        let peer = member.peer_url();
        self.ctl(&[
            "snapshot",
            "restore",
            &file,
            "--data-dir",
            &data,
            "--name",
            "m0",
            "--initial-cluster",
            &self.peers,
            "--initial-cluster-token",
            &self.peers,
            "--initial-advertise-peer-urls",
            &peer,
        ])?;
        member.restart()
    }

    fn start(count: usize, certificates: Option<Certificates>, more: &[&str]) -> Result<Self> {
        let mut made = Vec::new();
        for _ in 0..count {
            made.push((Port::claim()?, Port::claim()?, Port::claim()?, Folder::quick("etcd")?));
        }
        let peers: Vec<String> = made
            .iter()
            .enumerate()
            .map(|(at, (_, peer, ..))| format!("m{at}=http://127.0.0.1:{}", peer.number()))
            .collect();
        let peers = peers.join(",");
        let mut members = Vec::new();
        for (at, (client, peer, metrics, folder)) in made.into_iter().enumerate() {
            let ports = [&client, &peer, &metrics];
            let mut command = command(at, ports, folder.path(), &peers, certificates.as_ref())?;
            command.args(more);
            let name = format!("etcd at 127.0.0.1:{}", client.number());
            let process = Process::new(name, command, folder.path().join("log"))?;
            members.push(Member { process, client, peer, metrics, folder });
        }
        // Members of a cluster wait for each other.
        std::thread::scope(|scope| {
            let starting: Vec<_> =
                members.iter().map(|member| scope.spawn(|| member.restart())).collect();
            starting
                .into_iter()
                .try_for_each(|one| one.join().unwrap_or_else(|_| Err("A start panicked.".into())))
        })?;
        Ok(Self { members, peers, certificates, login: None })
    }
}

impl Store for Cluster {
    fn url(&self) -> String {
        let servers: Vec<_> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.port())).collect();
        let servers = servers.join(",");
        match (&self.certificates, &self.login) {
            (Some(certificates), _) => format!(
                "etcds://{servers}?ca={}&cert={}&key={}",
                certificates.ca().display(),
                certificates.client().display(),
                certificates.client_key().display()
            ),
            (None, Some((user, password))) => format!("etcd://{user}:{password}@{servers}"),
            (None, None) => format!("etcd://{servers}"),
        }
    }
}

impl Member {
    /// Where clients find it.
    pub fn port(&self) -> u16 {
        self.client.number()
    }

    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer.number())
    }

    /// Where everything is that it writes.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The number of its process, while that runs.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// Ends it as a power cut would. It keeps its ports and its folder.
    pub fn kill(&self) -> Result<()> {
        self.process.kill()
    }

    /// Starts it, and waits until it and its cluster are well.
    pub fn restart(&self) -> Result<()> {
        self.process.start(|| match self.get("/health") {
            Some(health) if health.contains(r#""health":"true""#) => Ok(()),
            _ => Err("It is not well yet.".into()),
        })
    }

    /// Starts it, without waiting for its cluster.
    pub fn begin(&self) -> Result<()> {
        self.process.start(|| {
            self.get("/metrics").map(drop).ok_or_else(|| "It does not answer yet.".into())
        })
    }

    /// Takes its processor away.
    pub fn freeze(&self) -> Result<()> {
        self.process.freeze()
    }

    /// Lets it go on.
    pub fn thaw(&self) -> Result<()> {
        self.process.thaw()
    }

    /// A number that it keeps of itself, the sum over all its labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.sum(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{'])))
    }

    /// How many requests of this method clients have sent to it, each message of a stream counted.
    pub fn requests(&self, method: &str) -> u64 {
        let label = format!("grpc_method=\"{method}\"");
        let is_of = |line: &str| {
            line.starts_with("grpc_server_msg_received_total{") && line.contains(&label)
        };
        // The count is whole; the text has a point in it only beyond millions.
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
        let address = (Ipv4Addr::LOCALHOST, self.metrics.number());
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_read_timeout(Some(ANSWER_MAX)).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

fn command(
    at: usize,
    [client, peer, metrics]: [&Port; 3],
    folder: &Path,
    peers: &str,
    certificates: Option<&Certificates>,
) -> Result<Command> {
    let program = ETCD.found().ok_or_else(|| ETCD.absent().unwrap_or_default())?;
    let scheme = if certificates.is_some() { "https" } else { "http" };
    let client = format!("{scheme}://127.0.0.1:{}", client.number());
    let peer = format!("http://127.0.0.1:{}", peer.number());
    let mut command = Command::new(program);
    command.args(["--name", &format!("m{at}"), "--logger", "zap", "--log-level", "warn"]);
    command.arg("--data-dir").arg(folder.join("data"));
    command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
    command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
    command.args(["--initial-cluster", peers, "--initial-cluster-token", peers]);
    command.args(["--listen-metrics-urls", &format!("http://127.0.0.1:{}", metrics.number())]);
    // A busy machine must not look like a member that is gone.
    command.args(["--heartbeat-interval", "100", "--election-timeout", "1000"]);
    if let Some(certificates) = certificates {
        command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(certificates.ca());
        command.arg("--cert-file").arg(certificates.server());
        command.arg("--key-file").arg(certificates.server_key());
    }
    Ok(command)
}
