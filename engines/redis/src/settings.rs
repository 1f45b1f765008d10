//! Where the servers are, and on what terms they are spoken to: what a URL says.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::TTL_DEFAULT;
use tenure_kit::secret::Secret;
use tenure_kit::url::{Address, Login};

/// Everything a URL can say. Made by [`parse`](Settings::parse); every part has a default.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) place: Place,
    pub(crate) login: Login,
    pub(crate) sentinel_login: Login,
    pub(crate) db: u16,
    /// What the names of all keys and channels begin with.
    pub(crate) prefix: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    /// How many replicas must have a ticket before it counts.
    pub(crate) acks: u16,
    pub(crate) young: Young,
    /// The longest ttl that anybody uses on these servers.
    pub(crate) ttl_max: Duration,
}

/// Which servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Server(Address),
    Socket(PathBuf),
    Sentinel { sentinels: Vec<Address>, service: String },
    Cluster(Vec<Address>),
    Redlock(Vec<Address>),
}

/// Files in PEM: whom to trust, and who one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) cert: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
}

/// What to do with a server that started so short a time ago that it may have forgotten locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Young {
    Trust,
    Refuse,
}

impl Settings {
    /// What holds where a URL says nothing.
    pub(crate) fn of(place: Place) -> Self {
        let many = matches!(place, Place::Redlock(_));
        Self {
            place,
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

    /// The settings of each of the servers of a `RedLock`, which are the same but for the place.
    pub(crate) fn node(&self, server: &Address) -> Self {
        Self { place: Place::Server(server.clone()), ..self.clone() }
    }
}

/// The place as an error may name it: without user and password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => server.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
            Self::Sentinel { sentinels, service } => {
                write!(f, "`{service}` of the sentinels {}", list(sentinels))
            }
            Self::Cluster(servers) => write!(f, "the cluster of {}", list(servers)),
            Self::Redlock(servers) => list(servers).fmt(f),
        }
    }
}

fn list(servers: &[Address]) -> String {
    servers.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
}
