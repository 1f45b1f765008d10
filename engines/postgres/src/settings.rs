//! The settings of a database: its hosts, and how to connect to them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tenure_core::{Error, Locks, Result};
use tenure_kit::options::checked_time;
use tenure_kit::secret::Secret;
use tenure_kit::tls::Tls;
use tenure_kit::url::{Address, Login};

use crate::sql::Statements;

pub(crate) const PORT: u16 = 5432;
pub(crate) const SCHEMA: &str = "tenure";
/// The longest identifier of PostgreSQL.
const IDENTIFIER_BYTES_MAX: usize = 63;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Tcp(Address),
    Socket(PathBuf),
}

/// The settings of a database: its hosts, the login, TLS, and time limits.
///
/// Each option of a URL has a setter, which refuses what the URL refuses.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_postgres::{Pem, Settings, Tls};
///
/// let settings = Settings::hosts(["h1", "h2:5433"])?
///     .login("app", "p@ss:word")
///     .database("shop")
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
    pub(crate) hosts: Vec<Host>,
    pub(crate) login: Login,
    pub(crate) database: Option<String>,
    pub(crate) schema: String,
    pub(crate) tls: Option<Tls>,
    pub(crate) application_name: String,
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) is_notified: bool,
    /// The server behind a pooler.
    pub(crate) notify_host: Option<Address>,
}

impl Settings {
    /// Returns the default settings of a database on these hosts: `HOST` or `HOST:PORT`. The
    /// default port is 5432. The client uses the host that is the primary.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if an address is wrong, or there is none.
    pub fn hosts(hosts: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Self> {
        Ok(Self::of(Address::parse_all(hosts, PORT)?.into_iter().map(Host::Tcp).collect()))
    }

    /// Returns the default settings of a server on this machine, by the directory of its Unix
    /// socket: `/var/run/postgresql` on most systems. The port is 5432; [`Settings::from_url`] has
    /// others.
    pub fn socket(directory: impl Into<PathBuf>) -> Self {
        let socket = directory.into().join(format!(".s.PGSQL.{PORT}"));
        Self::of(vec![Host::Socket(socket)])
    }

    pub(crate) fn of(hosts: Vec<Host>) -> Self {
        Self {
            hosts,
            login: Login::default(),
            database: None,
            schema: SCHEMA.to_owned(),
            tls: None,
            application_name: "tenure".to_owned(),
            timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            is_notified: true,
            notify_host: None,
        }
    }

    /// Sets the user and the password. Without a password, the server must trust the user. The
    /// default user is that of the operating system.
    pub fn login(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { login: Login::new(user, password), ..self }
    }

    /// Sets the database. The default is the one with the name of the user.
    pub fn database(self, database: impl Into<String>) -> Self {
        Self { database: Some(database.into()), ..self }
    }

    /// Sets the schema of the tables: `tenure` by default. Clients with different schemas do not
    /// share locks.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) unless it has 1 to 63 bytes without NUL and
    /// `$`, and does not begin with `pg_`.
    pub fn schema(self, schema: impl Into<String>) -> Result<Self> {
        Ok(Self { schema: checked_schema(schema.into())?, ..self })
    }

    /// Connects by TLS. The default is a connection without it.
    pub fn tls(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Sets the name of this client in `pg_stat_activity`: `tenure` by default.
    pub fn application_name(self, name: impl Into<String>) -> Self {
        Self { application_name: name.into(), ..self }
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

    /// Lets waiters poll, without a second connection for notifications.
    pub fn poll(self) -> Self {
        Self { is_notified: false, ..self }
    }

    /// Sets the server to listen to for notifications, where the hosts are those of a pooler:
    /// `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    ///
    /// [`Invalid`](tenure_core::ErrorKind::Invalid) if the address is wrong.
    pub fn notify_host(self, host: impl AsRef<str>) -> Result<Self> {
        Ok(Self { notify_host: Some(Address::parse(host.as_ref(), PORT)?), ..self })
    }

    /// Connects to the database, makes the tables if they are missing, and returns its locks.
    ///
    /// # Errors
    ///
    /// As [`connect`](crate::connect()).
    pub async fn connect(self) -> Result<Locks> {
        crate::open(self).await
    }

    /// Returns the SQL that makes the tables and the functions, as [`connect`](Self::connect) does
    /// where they are missing. An administrator can execute it, so that clients need no right to
    /// make tables.
    ///
    /// It may be executed again, and changes nothing then.
    pub fn setup_sql(&self) -> String {
        Statements::new(&self.quoted_schema()).setup
    }

    /// Refuses settings that contradict each other.
    pub(crate) fn check(&self) -> Result<()> {
        if self.login.user.is_none() && self.login.password.is_some() {
            return Err(Error::invalid(
                "the URL has a password and no user: write USER:PASSWORD@ before the first host",
            ));
        }
        if self.tls.is_some() && self.hosts.iter().any(|host| matches!(host, Host::Socket(_))) {
            return Err(Error::invalid(
                "a Unix socket has no TLS: leave out the option `sslmode` or `host`",
            ));
        }
        self.tls.as_ref().map_or(Ok(()), Tls::agree)
    }

    /// The schema as an identifier in quotes.
    pub(crate) fn quoted_schema(&self) -> String {
        quoted(&self.schema)
    }

    pub(crate) fn password(&self) -> Option<&Secret> {
        self.login.password.as_ref()
    }

    /// The time limit of a verb: the connection, and two answers.
    pub(crate) fn answers_within(&self) -> Duration {
        self.timeout * 3
    }

    /// The database in an error, without user and password.
    pub(crate) fn name(&self) -> String {
        let hosts: Vec<_> = self.hosts.iter().map(Host::to_string).collect();
        format!("PostgreSQL at {}", hosts.join(", "))
    }
}

/// Refuses a name that no schema of the tables may have.
pub(crate) fn checked_schema(schema: String) -> Result<String> {
    let fits = (1..=IDENTIFIER_BYTES_MAX).contains(&schema.len());
    if !fits || schema.contains(['\0', '$']) || schema.starts_with("pg_") {
        return Err(Error::invalid(
            "`schema` takes a name of 1 to 63 bytes that has no $ and does not begin with pg_",
        ));
    }
    Ok(schema)
}

/// A name as an identifier in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}
