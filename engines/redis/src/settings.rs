//! The settings of a deployment: its servers, and how to connect to them.

use std::path::PathBuf;
use std::time::Duration;

use tenure_core::{Error, Locks, Result, TTL_DEFAULT};
use tenure_kit::options::{checked_prefix, checked_time};
use tenure_kit::secret::Secret;
use tenure_kit::tls::Tls;
use tenure_kit::url::{Address, Login};

pub(crate) const PORT: u16 = 6379;
pub(crate) const SENTINEL_PORT: u16 = 26379;

/// The settings of a deployment: its servers, the login, TLS, and time limits.
///
/// Each option of a URL has a setter, which refuses what the URL refuses.
/// [`connect`](Self::connect) checks that the settings go together.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_redis::{Pem, Settings, Tls};
///
/// # fn secret(name: &str) -> Vec<u8> { name.into() }
/// let settings = Settings::sentinel(["h1", "h2", "h3:26379"], "main")?
///     .login("app", "p@ss:word")
///     .tls(Tls::new().ca(Pem::Bytes(secret("ca"))))
///     .timeout(Duration::from_secs(1))?;
/// let opening = settings.connect(); // await it
/// # drop(opening);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Settings {
    pub(crate) kind: DeploymentKind,
    /// The name of the deployment for an error, without user and password.
    pub(crate) name: String,
    pub(crate) login: Login,
    pub(crate) sentinel_login: Login,
    pub(crate) db: u16,
    /// Prefix of all keys and channels.
    pub(crate) prefix: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    /// Count of replicas that must have a ticket before it counts.
    pub(crate) acks: u16,
    pub(crate) after_restart: AfterRestart,
    /// Maximum ttl of all users of these servers.
    pub(crate) ttl_max: Duration,
}

/// The servers that keep the lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeploymentKind {
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

/// The policy for a server that started so recently that it may have forgotten locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterRestart {
    /// The server is used: `after_restart=trust` in a URL.
    Trust,
    /// The server gives no lock until the longest ttl has passed since its start:
    /// `after_restart=refuse` in a URL.
    Refuse,
}

impl Settings {
    /// Creates the default settings of one server: `HOST` or `HOST:PORT`. The default port is 6379.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the address is wrong.
    pub fn server(server: impl AsRef<str>) -> Result<Self> {
        let server = Address::parse(server.as_ref(), PORT)?;
        Ok(Self::of(DeploymentKind::One(At::Server(server))))
    }

    /// Creates the default settings of one server on this machine, by the path of its socket.
    pub fn socket(path: impl Into<PathBuf>) -> Self {
        Self::of(DeploymentKind::One(At::Socket(path.into())))
    }

    /// Creates the default settings of the master that these sentinels know as `service`. Their
    /// default port is 26379.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if an address is wrong, or there is none.
    pub fn sentinel(
        sentinels: impl IntoIterator<Item = impl AsRef<str>>,
        service: impl Into<String>,
    ) -> Result<Self> {
        let sentinels = Address::parse_all(sentinels, SENTINEL_PORT)?;
        Ok(Self::of(DeploymentKind::One(At::Sentinels { sentinels, service: service.into() })))
    }

    /// Creates the default settings of a cluster, which is found through any of these servers. The
    /// default port is 6379.
    ///
    /// # Errors
    ///
    /// As [`sentinel`](Self::sentinel).
    pub fn cluster(servers: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        Ok(Self::of(DeploymentKind::Cluster(Address::parse_all(servers, PORT)?)))
    }

    /// Creates the default settings of a [`RedLock`](crate::RedLock) over these independent
    /// servers. The default port is 6379.
    ///
    /// # Errors
    ///
    /// As [`sentinel`](Self::sentinel).
    pub fn redlock(servers: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        Ok(Self::of(DeploymentKind::Redlock(Address::parse_all(servers, PORT)?)))
    }

    /// Returns the default settings.
    pub(crate) fn of(kind: DeploymentKind) -> Self {
        let many = matches!(kind, DeploymentKind::Redlock(_));
        Self {
            name: name_of(&kind),
            kind,
            login: Login::default(),
            sentinel_login: Login::default(),
            db: 0,
            prefix: "tenure".to_owned(),
            tls: None,
            connect_timeout: Duration::from_secs(2),
            // A slow one of many must not hold up the others: its answer is not needed.
            timeout: if many { Duration::from_millis(250) } else { Duration::from_secs(2) },
            acks: 0,
            after_restart: if many { AfterRestart::Refuse } else { AfterRestart::Trust },
            ttl_max: TTL_DEFAULT,
        }
    }

    /// Sets the user and the password, the same for every server. An empty text is none, as in a
    /// URL.
    pub fn login(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { login: Login::new(user, password), ..self }
    }

    /// Sets the password of the default user.
    pub fn password(self, password: impl Into<String>) -> Self {
        self.login("", password)
    }

    /// Sets the user and the password of the sentinels themselves. An empty text is none, as in a
    /// URL.
    pub fn sentinel_login(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { sentinel_login: Login::new(user, password), ..self }
    }

    /// Sets the number of the database: 0 by default.
    pub fn database(self, number: u16) -> Self {
        Self { db: number, ..self }
    }

    /// Connects by TLS. The default is a connection without it.
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Sets the prefix of the names of all keys and channels: `tenure` by default. Clients with
    /// different prefixes do not meet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) unless it is 1 to 128 letters, digits and the
    /// signs `. _ - :`, with slashes between them.
    pub fn prefix(self, prefix: impl Into<String>) -> Result<Self> {
        Ok(Self { prefix: checked_prefix(prefix)?, ..self })
    }

    /// Sets the time limit of one attempt at a call: 2 s by default, and 250 ms for a `RedLock`.
    /// All attempts take at most twice that.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) for less than 1 ms or more than 1 h.
    pub fn timeout(self, timeout: Duration) -> Result<Self> {
        Ok(Self { timeout: checked_time("timeout", timeout)?, ..self })
    }

    /// Sets the time limit of a new connection: 2 s by default.
    ///
    /// # Errors
    ///
    /// As [`timeout`](Self::timeout).
    pub fn connect_timeout(self, timeout: Duration) -> Result<Self> {
        let connect_timeout = checked_time("connect_timeout", timeout)?;
        Ok(Self { connect_timeout, ..self })
    }

    /// Sets the number of replicas that must have a ticket before it counts: 0 by default.
    pub fn acks(self, replicas: u16) -> Self {
        Self { acks: replicas, ..self }
    }

    /// Sets the policy for a server that started so recently that it may have forgotten locks.
    pub fn after_restart(self, after_restart: AfterRestart) -> Self {
        Self { after_restart, ..self }
    }

    /// Sets the longest ttl of all users of these servers, for [`AfterRestart::Refuse`]. The
    /// default is 30 s.
    ///
    /// # Errors
    ///
    /// As [`timeout`](Self::timeout).
    pub fn ttl_max(self, ttl: Duration) -> Result<Self> {
        Ok(Self { ttl_max: checked_time("ttl_max", ttl)?, ..self })
    }

    /// Connects to the servers, and returns their locks.
    ///
    /// # Errors
    ///
    /// `Invalid` for settings that do not go together, `Unavailable` if no server can be reached,
    /// and `Rejected` if the server refuses this client.
    pub async fn connect(self) -> Result<Locks> {
        crate::open(self).await
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |sentence: &str| Err(Error::invalid(sentence));
        if self.login.user.is_some() && self.login.password.is_none() {
            return refuse(
                "the login has a user and no password: give both, in a URL as user:password@ before the first server, or for a socket as `user` and `password`",
            );
        }
        if let Some(tls) = &self.tls {
            tls.agree()?;
            if matches!(self.kind, DeploymentKind::One(At::Socket(_))) {
                return refuse("a socket of this machine has no TLS: leave out the options for it");
            }
        }
        match &self.kind {
            DeploymentKind::Cluster(_) if self.db != 0 => {
                refuse("a cluster has no databases but 0: leave the number of the database out")
            }
            DeploymentKind::Cluster(_) if self.after_restart == AfterRestart::Refuse => refuse(
                "`after_restart=refuse` is not kept on a cluster, whose servers come and go unseen: leave it out",
            ),
            DeploymentKind::Redlock(servers) if has_twice(servers) => {
                refuse("redlock:// names a server twice: each has one vote, name each once")
            }
            DeploymentKind::Redlock(servers) if servers.len() < 3 => refuse(
                "redlock:// needs at least 3 servers that know nothing of each other: write redlock://S1,S2,S3",
            ),
            DeploymentKind::Redlock(_) if self.acks > 0 => refuse(
                "the servers of a RedLock have no replicas to wait for: leave out `acks`, its majority is better",
            ),
            DeploymentKind::One(At::Sentinels { service, .. }) if service.is_empty() => refuse(
                "the sentinels must be told which master is meant: write redis+sentinel://S1,S2,S3/SERVICE",
            ),
            DeploymentKind::One(At::Sentinels { .. }) => Ok(()),
            _ if self.sentinel_login != Login::default() => {
                refuse("`sentinel_user` and `sentinel_password` are for redis+sentinel://")
            }
            _ => Ok(()),
        }
    }

    /// Returns the one server, found in any way, of settings that go together.
    pub(crate) fn one(&self) -> Result<&At> {
        self.check()?;
        if let DeploymentKind::One(at) = &self.kind { Ok(at) } else { Err(self.other_kind()) }
    }

    /// Returns the known servers of a cluster, of settings that go together.
    pub(crate) fn seeds(&self) -> Result<&[Address]> {
        self.check()?;
        if let DeploymentKind::Cluster(it) = &self.kind { Ok(it) } else { Err(self.other_kind()) }
    }

    /// Returns the servers of a `RedLock`, of settings that go together.
    pub(crate) fn voters(&self) -> Result<&[Address]> {
        self.check()?;
        if let DeploymentKind::Redlock(it) = &self.kind { Ok(it) } else { Err(self.other_kind()) }
    }

    fn other_kind(&self) -> Error {
        Error::invalid(format!("{} is another kind of store: use `connect`", self.whom()))
    }

    /// Returns whether the URL names a single server, and not a set of them.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self.kind, DeploymentKind::One(At::Server(_) | At::Socket(_)))
    }

    /// Returns the name as the subject of a sentence.
    pub(crate) fn whom(&self) -> String {
        if self.is_one() { format!("the server {}", self.name) } else { self.name.clone() }
    }

    /// Returns the prefix of the clients' channels.
    pub(crate) fn channels(&self) -> String {
        format!("{}:inbox:", self.prefix)
    }

    /// Returns the passwords, which no text may contain.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        [&self.login, &self.sentinel_login].into_iter().filter_map(|login| login.password.as_ref())
    }

    /// Returns the settings for one of the servers of a `RedLock`, which are otherwise the same.
    pub(crate) fn node(&self, server: &Address) -> Self {
        let kind = DeploymentKind::One(At::Server(server.clone()));
        Self { name: name_of(&kind), kind, ..self.clone() }
    }
}

/// Returns the name of the deployment for an error, without user and password.
fn name_of(kind: &DeploymentKind) -> String {
    match kind {
        DeploymentKind::One(At::Server(server)) => server.to_string(),
        DeploymentKind::One(At::Socket(path)) => path.display().to_string(),
        DeploymentKind::One(At::Sentinels { sentinels, service }) => {
            format!("`{service}` of the sentinels {}", list(sentinels))
        }
        DeploymentKind::Cluster(servers) => format!("the cluster of {}", list(servers)),
        DeploymentKind::Redlock(servers) => list(servers),
    }
}

fn list(servers: &[Address]) -> String {
    servers.iter().map(Address::to_string).collect::<Vec<_>>().join(", ")
}

fn has_twice(servers: &[Address]) -> bool {
    servers.iter().enumerate().any(|(at, server)| servers[..at].contains(server))
}
