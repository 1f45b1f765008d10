//! The settings of a cluster: its members, and how to connect to them.

use std::time::Duration;

use tenure_core::{Locks, Result};
use tenure_kit::options::{checked_prefix, checked_time};
use tenure_kit::tls::Tls;
use tenure_kit::url::{Address, Login};

/// Default prefix of all keys.
pub(crate) const PREFIX: &str = "tenure";
pub(crate) const PORT: u16 = 2379;

/// The settings of a cluster: its members, the login, TLS, and time limits.
///
/// Each option of a URL has a setter, which refuses what the URL refuses.
/// [`connect`](Self::connect) checks that the settings go together.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_etcd::{Pem, Settings, Tls};
///
/// # fn secret(name: &str) -> Vec<u8> { name.into() }
/// let settings = Settings::servers(["h1", "h2", "h3:2379"])?
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
    /// At least one.
    pub(crate) members: Vec<Address>,
    pub(crate) login: Login,
    /// Prefix of all keys.
    pub(crate) prefix: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    /// Minimum ttl of sessions.
    pub(crate) session_ttl: Duration,
}

impl Settings {
    /// Creates the default settings of the cluster with these members: `HOST` or `HOST:PORT`. The
    /// default port is 2379.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if an address is wrong, or there is none.
    pub fn servers(members: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        Ok(Self::of(Address::parse_all(members, PORT)?))
    }

    /// Returns the default settings.
    pub(crate) fn of(members: Vec<Address>) -> Self {
        Self {
            members,
            login: Login::default(),
            prefix: PREFIX.to_owned(),
            tls: None,
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            session_ttl: Duration::ZERO,
        }
    }

    /// Sets the user and the password. An empty text is none, as in a URL.
    pub fn login(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { login: Login::new(user, password), ..self }
    }

    /// Connects by TLS. The default is a connection without it.
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Sets the prefix of the names of all keys: `tenure` by default. Clients with different
    /// prefixes do not meet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) unless it is 1 to 128 letters, digits and the
    /// signs `. _ - :`, with slashes between them. One more slash may come first.
    pub fn prefix(self, prefix: impl Into<String>) -> Result<Self> {
        let prefix = prefix.into();
        checked_prefix(prefix.strip_prefix('/').unwrap_or(&prefix))?;
        Ok(Self { prefix, ..self })
    }

    /// Sets the time limit of one answer: 2 s by default. A call takes at most four times as long.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) for less than 1 ms or more than 1 h.
    pub fn timeout(self, timeout: Duration) -> Result<Self> {
        Ok(Self { timeout: checked_time("timeout", timeout)?, ..self })
    }

    /// Sets the time limit of a new connection, over all members: 2 s by default.
    ///
    /// # Errors
    ///
    /// As [`timeout`](Self::timeout).
    pub fn connect_timeout(self, timeout: Duration) -> Result<Self> {
        let connect_timeout = checked_time("connect_timeout", timeout)?;
        Ok(Self { connect_timeout, ..self })
    }

    /// Sets the minimum ttl of sessions: none by default. Locks with a shorter ttl live this long
    /// without their client.
    ///
    /// # Errors
    ///
    /// As [`timeout`](Self::timeout).
    pub fn session_ttl(self, ttl: Duration) -> Result<Self> {
        Ok(Self { session_ttl: checked_time("session_ttl", ttl)?, ..self })
    }

    /// Connects to the cluster, and returns its locks.
    ///
    /// # Errors
    ///
    /// `Invalid` for settings that do not go together, `Unavailable` if no member can be reached,
    /// and `Rejected` if the members refuse this client.
    pub async fn connect(self) -> Result<Locks> {
        crate::open(self).await
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        self.login.agree()?;
        self.tls.as_ref().map_or(Ok(()), Tls::agree)
    }

    /// Returns the maximum time of one verb: all members may have to be tried, and then asked.
    pub(crate) fn answers_within(&self) -> Duration {
        self.timeout * 2
    }

    /// Returns the name of the cluster for an error, without user and password.
    pub(crate) fn whom(&self) -> String {
        format!("etcd at {}", self.addresses())
    }

    /// Returns the members' addresses as a list in a sentence.
    pub(crate) fn addresses(&self) -> String {
        let members: Vec<_> = self.members.iter().map(Address::to_string).collect();
        members.join(", ")
    }
}
