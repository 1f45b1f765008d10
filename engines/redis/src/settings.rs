//! The settings of a URL: the servers, and its options.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::TTL_DEFAULT;
use tenure_kit::secret::Secret;
use tenure_kit::tls::Files;
use tenure_kit::url::{Address, Login};

/// The settings of a deployment. Every part has a default.
#[derive(Clone)]
pub struct Settings {
    pub(crate) name: Name,
    pub(crate) login: Login,
    pub(crate) sentinel_login: Login,
    pub(crate) db: u16,
    /// Prefix of all keys and channels.
    pub(crate) prefix: String,
    pub(crate) tls: Option<Files>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    /// Count of replicas that must have a ticket before it counts.
    pub(crate) acks: u16,
    pub(crate) young: Young,
    /// Maximum ttl of all users of these servers.
    pub(crate) ttl_max: Duration,
}

/// The servers that keep the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deployment {
    One(At),
    /// Any of these knows the others.
    Cluster(Vec<Address>),
    /// None of these knows another.
    Redlock(Vec<Address>),
}

/// The address of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Server(Address),
    Socket(PathBuf),
    /// The master of these sentinels.
    Sentinels {
        sentinels: Vec<Address>,
        service: String,
    },
}

/// The name of the deployment for an error, without user and password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Server(String),
    /// The sentinels' name of the master.
    Service(String),
    Cluster(String),
    Redlock(String),
}

/// The policy for a server that started so recently that it may have forgotten locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Young {
    Trust,
    Refuse,
}

impl Settings {
    /// Returns the default settings.
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
            // A slow one of many must not hold up the others: its answer is not needed.
            timeout: if many { Duration::from_millis(250) } else { Duration::from_secs(2) },
            acks: 0,
            young: if many { Young::Refuse } else { Young::Trust },
            ttl_max: TTL_DEFAULT,
        }
    }

    /// Returns the prefix of the clients' channels.
    pub(crate) fn channels(&self) -> String {
        format!("{}:inbox:", self.prefix)
    }

    /// Returns the passwords, which no text may contain.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.login, &self.sentinel_login].into_iter().filter_map(|login| login.password.as_ref())
    }

    /// Returns the settings for one of the servers of a `RedLock`, which are the same but for the
    /// name.
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

    /// Returns whether the URL names a single server, and not a set of them.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::Server(_))
    }

    /// Returns the name as the subject of a sentence.
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
