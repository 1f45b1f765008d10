//! The settings of a database: its hosts, and how to connect to them.

use std::fmt;
use std::time::Duration;

use tenure_core::{Error, Locks, Result};
use tenure_kit::options::checked_time;
use tenure_kit::secret::Secret;
use tenure_kit::tls::Tls;
use tenure_kit::url::{Address, Login};

use crate::sql::Procedures;

pub(crate) const PORT: u16 = 3306;
pub(crate) const PREFIX: &str = "tenure_";
/// The longest prefix: with the name of a procedure, it has at most the server's 64 bytes.
const PREFIX_BYTES_MAX: usize = 40;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostOrSocket {
    Tcp(Address),
    Socket(String),
}

impl fmt::Display for HostOrSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Socket(path) => path.fmt(f),
        }
    }
}

/// The settings of a database: its hosts, the login, TLS, and time limits.
///
/// Each option of a URL has a setter, which refuses what the URL refuses. For the option `socket`
/// it is the constructor [`socket`](Self::socket), and for `ssl-mode` it is [`tls`](Self::tls).
///
/// ```
/// use std::time::Duration;
///
/// use tenure_mysql::{Pem, Settings, Tls};
///
/// let settings = Settings::hosts(["h1", "h2:3307"], "shop")?
///     .login("app", "p@ss:word")
///     .tls(Tls::new().ca(Pem::File("ca.pem".into())))
///     .timeout(Duration::from_secs(1))?;
/// let opening = settings.connect(); // await it
/// # drop(opening);
/// # Ok::<(), tenure_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Settings {
    /// At least one.
    pub(crate) hosts: Vec<HostOrSocket>,
    pub(crate) database: String,
    pub(crate) login: Login,
    pub(crate) prefix: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
}

impl Settings {
    /// Returns the default settings of a database on these hosts: `HOST` or `HOST:PORT`. The
    /// default port is 3306. The client uses the host that takes writes.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if an address is wrong, or there is none, or
    /// the name of the database is empty.
    pub fn hosts(
        hosts: impl IntoIterator<Item = impl AsRef<str>>,
        database: impl Into<String>,
    ) -> Result<Self> {
        let hosts = Address::parse_all(hosts, PORT)?.into_iter().map(HostOrSocket::Tcp).collect();
        Self::of(hosts, database.into())
    }

    /// Returns the default settings of a database on this machine, by the path of the server's Unix
    /// socket: `/run/mysqld/mysqld.sock` on most systems.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the name of the database is empty.
    pub fn socket(path: impl Into<String>, database: impl Into<String>) -> Result<Self> {
        Self::of(vec![HostOrSocket::Socket(path.into())], database.into())
    }

    pub(crate) fn of(hosts: Vec<HostOrSocket>, database: String) -> Result<Self> {
        if database.is_empty() {
            return Err(Error::invalid(
                "the URL names no database: write it behind the hosts, as in mariadb://USER@HOST/DATABASE",
            ));
        }
        Ok(Self {
            hosts,
            database,
            login: Login::default(),
            prefix: PREFIX.to_owned(),
            tls: None,
            timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
        })
    }

    /// Sets the user and the password.
    pub fn login(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { login: Login::new(user, password), ..self }
    }

    /// Sets the prefix of the names of tables and procedures: `tenure_` by default. Clients with
    /// different prefixes do not share locks.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) unless it has 1 to 40 characters, which are
    /// lowercase letters, digits or `_`.
    pub fn prefix(self, prefix: impl Into<String>) -> Result<Self> {
        Ok(Self { prefix: checked_prefix(prefix.into())?, ..self })
    }

    /// Connects by TLS. The default is a connection without it.
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Sets the time limit of one answer: 2 s by default. A call takes at most six times as long.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) for less than 1 ms or more than 1 h.
    pub fn timeout(self, timeout: Duration) -> Result<Self> {
        Ok(Self { timeout: checked_time("timeout", timeout)?, ..self })
    }

    /// Sets the time limit of a new connection, over all hosts: 2 s by default.
    ///
    /// # Errors
    ///
    /// As [`timeout`](Self::timeout).
    pub fn connect_timeout(self, timeout: Duration) -> Result<Self> {
        let connect_timeout = checked_time("connect_timeout", timeout)?;
        Ok(Self { connect_timeout, ..self })
    }

    /// Connects to the database, makes the tables if they are missing, and returns its locks.
    ///
    /// # Errors
    ///
    /// As [`connect`](crate::connect()).
    pub async fn connect(self) -> Result<Locks> {
        crate::open(self).await
    }

    /// Returns the SQL that makes the tables and the procedures, as [`connect`](Self::connect) does
    /// where they are missing. It is a script for the command `mariadb` or `mysql`, because it sets
    /// their delimiter. An administrator can execute it, so that clients need no right to make
    /// tables.
    ///
    /// It may be executed again, and changes nothing then.
    pub fn setup_sql(&self) -> String {
        Procedures::new(&self.prefix).script()
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        if self.login.user.is_none() {
            return Err(Error::invalid(
                "the URL has no user: write USER:PASSWORD@ before the first host",
            ));
        }
        if self.tls.is_some()
            && self.hosts.iter().any(|host| matches!(host, HostOrSocket::Socket(_)))
        {
            return Err(Error::invalid(
                "a Unix socket has no TLS: leave out `ssl-mode` or `socket`",
            ));
        }
        self.tls.as_ref().map_or(Ok(()), Tls::agree).map_err(|_| {
            Error::invalid(
                "a client's certificate needs its key: give both `ssl-cert` and `ssl-key`",
            )
        })
    }

    pub(crate) fn password(&self) -> Option<&Secret> {
        self.login.password.as_ref()
    }

    /// The time limit of one attempt of a verb: the connection, the wait for other statements, and
    /// the answer. All attempts of a call have twice this time.
    pub(crate) fn answers_within(&self) -> Duration {
        self.timeout * 3
    }

    /// The database in an error, without user and password.
    pub(crate) fn name(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(HostOrSocket::to_string).collect();
        format!("MariaDB or MySQL at {}", hosts.join(", "))
    }
}

/// Refuses a prefix of names that would need quotes.
pub(crate) fn checked_prefix(prefix: String) -> Result<String> {
    let fits = (1..=PREFIX_BYTES_MAX).contains(&prefix.len());
    let is_plain = |one: u8| matches!(one, b'a'..=b'z' | b'0'..=b'9' | b'_');
    // Large letters mean other tables on some systems, and the same ones on others.
    if fits && prefix.bytes().all(is_plain) {
        Ok(prefix)
    } else {
        Err(Error::invalid("`prefix` takes 1 to 40 lowercase letters, digits and `_`"))
    }
}
