//! Which servers keep the lines, and on what terms they are spoken to: what a URL says.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::TTL_DEFAULT;
use tenure_kit::secret::Secret;
use tenure_kit::tls::Files;
use tenure_kit::url::{Address, Login};

/// On what terms the servers are spoken to. Every part has a default.
#[derive(Clone)]
pub struct Settings {
    pub(crate) name: Name,
    pub(crate) login: Login,
    pub(crate) sentinel_login: Login,
    pub(crate) db: u16,
    /// What the names of all keys and channels begin with.
    pub(crate) prefix: String,
    pub(crate) tls: Option<Files>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    /// How many replicas must have a ticket before it counts.
    pub(crate) acks: u16,
    pub(crate) young: Young,
    /// The longest ttl that anybody uses on these servers.
    pub(crate) ttl_max: Duration,
}

/// Which servers keep the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deployment {
    One(At),
    /// Any of these knows the others.
    Cluster(Vec<Address>),
    /// None of these knows any other.
    Redlock(Vec<Address>),
}

/// Where one server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Server(Address),
    Socket(PathBuf),
    /// Where these say.
    Sentinels {
        sentinels: Vec<Address>,
        service: String,
    },
}

/// How an error may name what the URL leads to: without user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Server(String),
    /// What sentinels call the master.
    Service(String),
    Cluster(String),
    Redlock(String),
}

/// What to do with a server that started so short a time ago that it may have forgotten locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Young {
    Trust,
    Refuse,
}

impl Settings {
    /// What holds where a URL says nothing.
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let many = matches!(deployment, Deployment::Redlock(_));
        Self {
            name: Name::of(deployment),
            login: Login::default(),
            sentinel_login: Login::default(),
            db: 0,
            prefix: "tenure".to_owned(),
            tls: None,
            connect_timeout: Duration::from_secs(2),
            // One of many that is slow must not hold up the others: its answer is not needed.
            timeout: if many { Duration::from_millis(250) } else { Duration::from_secs(2) },
            acks: 0,
            young: if many { Young::Refuse } else { Young::Trust },
            ttl_max: TTL_DEFAULT,
        }
    }

    /// What the names of the clients' channels begin with.
    pub(crate) fn channels(&self) -> String {
        format!("{}:inbox:", self.prefix)
    }

    /// What no text may tell.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.login, &self.sentinel_login].into_iter().filter_map(|login| login.password.as_ref())
    }

    /// The settings for one of the servers of a `RedLock`, which are the same but for the name.
    pub(crate) fn node(&self, server: &Address) -> Self {
        Self { name: Name::Server(server.to_string()), ..self.clone() }
    }
}

impl Name {
    fn of(deployment: &Deployment) -> Self {
        match deployment {
            Deployment::One(At::Server(server)) => Self::Server(server.to_string()),
            Deployment::One(At::Socket(path)) => Self::Server(path.display().to_string()),
            Deployment::One(At::Sentinels { sentinels, service }) => {
                Self::Service(format!("`{service}` of the sentinels {}", list(sentinels)))
            }
            Deployment::Cluster(servers) => {
                Self::Cluster(format!("the cluster of {}", list(servers)))
            }
            Deployment::Redlock(servers) => Self::Redlock(list(servers)),
        }
    }

    /// Whether the URL names a single server, and not a set of them.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    /// The name as the subject of a sentence.
    pub(crate) fn whom(&self) -> String {
        if self.is_one() { format!("the server {self}") } else { self.to_string() }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Server(name) | Self::Service(name) | Self::Cluster(name) | Self::Redlock(name)) =
            self;
        name.fmt(f)
    }
}

fn list(servers: &[Address]) -> String {
    servers.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
}
