//! The settings of an ensemble: its servers, and how to connect to them.

use std::fmt;
use std::time::Duration;

use tenure_core::{Error, Locks, Result};
use tenure_kit::options::{Value, checked_prefix, checked_time};
use tenure_kit::tls::Tls;
use tenure_kit::url::{Address, Login};
use zookeeper_client::{Acl, AuthId, Permission};

/// Default node below which everything is kept.
pub(crate) const PREFIX: &str = "tenure";
pub(crate) const PORT: u16 = 2181;

/// The settings of an ensemble: its servers, the chroot, the login, TLS, and time limits.
///
/// Each option of a URL has a setter, which refuses what the URL refuses.
/// [`connect`](Self::connect) checks that the settings go together.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_zookeeper::{Pem, Settings, Tls};
///
/// # fn secret(name: &str) -> Vec<u8> { name.into() }
/// let settings = Settings::servers(["h1", "h2", "h3:2281"])?
///     .chroot("/app")?
///     .login("app", "p@ss:word")
///     .tls(Tls::new().ca(Pem::Bytes(secret("ca")))) // with the feature `tls`
///     .timeout(Duration::from_secs(1))?;
/// let opening = settings.connect(); // await it
/// # drop(opening);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Settings {
    /// At least one.
    pub(crate) servers: Vec<Address>,
    pub(crate) login: Login,
    /// The node that is the root, such as `/app`; empty for the root itself. It must exist.
    pub(crate) chroot: String,
    /// The node below which everything is kept, without its first slash. The engine makes it if it
    /// does not exist.
    pub(crate) prefix: String,
    /// The users that may see and change the nodes: by default the creator if there is a login, or
    /// else all users.
    pub(crate) acl: Option<AclOwner>,
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
}

/// The users that may see and change the nodes of an ensemble.
#[derive(Clone, PartialEq, Eq)]
pub enum AclOwner {
    /// All users: `acl=open` in a URL.
    Open,
    /// The user of the login or of the client's certificate: `acl=creator` in a URL.
    Creator,
    /// A user and the hash of a password as `USER:HASH`: `acl=digest:USER:HASH` in a URL. `Debug`
    /// does not print it.
    Digest(String),
}

impl Settings {
    /// Creates the default settings of the ensemble with these servers: `HOST` or `HOST:PORT`. The
    /// default port is 2181.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if an address is wrong, or there is none.
    pub fn servers(servers: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        Ok(Self::of(Address::parse_all(servers, PORT)?))
    }

    /// Returns the default settings.
    pub(crate) fn of(servers: Vec<Address>) -> Self {
        Self {
            servers,
            login: Login::default(),
            chroot: String::new(),
            prefix: PREFIX.to_owned(),
            acl: None,
            tls: None,
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
        }
    }

    /// Sets the node that is the root of the engine, such as `/app`. It must exist.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if its parts can be no names of nodes.
    pub fn chroot(self, chroot: impl AsRef<str>) -> Result<Self> {
        self.chroot_of(chroot.as_ref().split('/').filter(|part| !part.is_empty()))
    }

    /// Sets the chroot by its parts.
    pub(crate) fn chroot_of<'a>(self, parts: impl Iterator<Item = &'a str>) -> Result<Self> {
        let mut chroot = String::new();
        for part in parts {
            if !is_plain(part) {
                return Err(Error::invalid(
                    "a chroot is made of letters, digits and the signs . _ - :, with slashes between, and none of them is `zookeeper`, `.` or `..`: write zookeeper://SERVER/my/app",
                ));
            }
            chroot = format!("{chroot}/{part}");
        }
        Ok(Self { chroot, ..self })
    }

    /// Sets the user and the password. An empty text is none, as in a URL.
    pub fn login(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { login: Login::new(user, password), ..self }
    }

    /// Connects by TLS, in a program with the feature `tls`. The default is a connection without
    /// it. `ZooKeeper` has no default authorities, so [`Tls::ca`] must be set.
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Sets the node below which all locks are kept: `tenure` by default. The engine makes it if it
    /// is not there.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if its parts can be no names of nodes, or if it
    /// has more than 128 characters.
    pub fn prefix(self, prefix: impl Into<String>) -> Result<Self> {
        let prefix = checked_prefix(prefix)?;
        if prefix.split('/').any(is_reserved) {
            return Err(Value::new("`prefix`", prefix)
                .wrong("no part that is `zookeeper`, `.` or `..`: nodes cannot have these names"));
        }
        Ok(Self { prefix, ..self })
    }

    /// Sets the users that may see and change the nodes: the creator if there is a login, or else
    /// all users.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) for a digest that is not `USER:HASH`.
    pub fn acl(self, owner: AclOwner) -> Result<Self> {
        if let AclOwner::Digest(id) = &owner
            && id.split(':').filter(|part| !part.is_empty()).count() != 2
        {
            return Err(wrong_acl());
        }
        Ok(Self { acl: Some(owner), ..self })
    }

    /// Sets the time limit of one answer: 2 s by default. A call takes at most four times as long.
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

    /// Connects to the ensemble, and returns its locks.
    ///
    /// # Errors
    ///
    /// `Invalid` for settings that do not go together, `Unavailable` if no server can be reached,
    /// and `Rejected` if the servers refuse this client.
    pub async fn connect(self) -> Result<Locks> {
        crate::open(self).await
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        self.login.agree()?;
        if self.login.user.as_ref().is_some_and(|user| user.contains(':')) {
            return Err(Error::invalid(
                "the user has a colon, which no user of ZooKeeper can have",
            ));
        }
        if let Some(tls) = &self.tls {
            tls.agree()?;
            if !tls.has_ca() {
                return Err(Error::invalid(
                    "TLS to ZooKeeper has no default authorities: name the one that signed the servers' certificates as `ca`",
                ));
            }
            #[cfg(not(feature = "tls"))]
            return Err(Error::invalid(
                "TLS to ZooKeeper is not a part of this program: build it with the feature `zookeeper-tls`, which is `tls` in the crate tenure-zookeeper",
            ));
            #[cfg(feature = "tls")]
            crate::tls::check(&self.servers)?;
        }
        let is_known =
            self.login.user.is_some() || self.tls.as_ref().is_some_and(Tls::has_identity);
        if self.acl == Some(AclOwner::Creator) && !is_known {
            return Err(Error::invalid(
                "`acl=creator` is for a user that the servers know: write user:password@ before them, or name a certificate as `cert` and `key`",
            ));
        }
        Ok(())
    }

    /// Returns the access control list of new nodes.
    pub(crate) fn acls(&self) -> Vec<Acl> {
        let usual = if self.login.user.is_some() { AclOwner::Creator } else { AclOwner::Open };
        let whom = match self.acl.clone().unwrap_or(usual) {
            AclOwner::Open => AuthId::anyone(),
            AclOwner::Creator => AuthId::authed(),
            AclOwner::Digest(id) => AuthId::new("digest", &id),
        };
        vec![Acl::new(Permission::ALL, whom)]
    }

    /// Returns the servers and the chroot in the form of ZooKeeper's clients.
    pub(crate) fn ensemble(&self) -> String {
        format!("{}{}", self.named_servers().join(","), self.chroot)
    }

    /// Returns the maximum time of one verb: it may have to find a connection, and then use it.
    pub(crate) fn answers_within(&self) -> Duration {
        self.timeout * 2
    }

    /// Returns the maximum time to open a session: a frozen server is tried, too.
    pub(crate) fn connects_within(&self) -> Duration {
        let servers = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        self.connect_timeout.saturating_mul(servers)
    }

    /// Returns the name of the ensemble for an error, without user and password.
    pub(crate) fn whom(&self) -> String {
        format!("ZooKeeper at {}", self.named_servers().join(", "))
    }

    fn named_servers(&self) -> Vec<String> {
        self.servers.iter().map(Address::to_string).collect()
    }
}

impl fmt::Debug for AclOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Creator => "Creator",
            Self::Digest(_) => "Digest(…)",
        })
    }
}

/// Returns the error for an access control list that is none of the known ones.
pub(crate) fn wrong_acl() -> Error {
    Value::new("`acl`", "").wrong("open, creator or digest:USER:HASH")
}

/// Returns whether this may be the name of a node.
fn is_plain(part: &str) -> bool {
    let plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | ':');
    !part.is_empty() && part.chars().all(plain) && !is_reserved(part)
}

/// Returns whether `ZooKeeper` refuses this name, or keeps it for itself.
fn is_reserved(part: &str) -> bool {
    matches!(part, "." | ".." | "zookeeper")
}
