//! The configuration of a server, before it is started.

use std::fmt::Write as _;
use std::path::Path;

use super::Server;
use crate::Result;

/// A configuration of a server. The default is Debian's version, which flushes nothing to disk, and
/// needs no password.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is started yet"]
pub struct Setup {
    pub(super) version: Version,
    pub(super) is_durable: bool,
    pub(super) password: Option<String>,
    pub(super) user: Option<User>,
    pub(super) tls: bool,
    pub(super) settable_clock: bool,
    settings: Vec<String>,
}

/// A source of the programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Version {
    #[default]
    Debian,
    Wheel18,
}

/// A user with fewer rights than `postgres`.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
}

impl Setup {
    /// Returns the setup of a plain server.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses PostgreSQL 18 from a wheel instead of Debian's version.
    pub fn version_18(self) -> Self {
        Self { version: Version::Wheel18, ..self }
    }

    /// Flushes every commit to disk. Without this, only a failure of the machine loses a commit.
    pub fn durable(self) -> Self {
        Self { is_durable: true, ..self }
    }

    /// Adds a setting: `max_connections=20`. A later one replaces an earlier one.
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// Sets the password of the user `postgres`. Connections over TCP then need a password.
    pub fn password(self, password: &str) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// Adds a user whose only right is to create schemas in the database. Connections over TCP then
    /// need a password. The URL has the login of this user.
    pub fn limited_user(self, name: &str, password: &str) -> Self {
        Self { user: Some(User { name: name.into(), password: password.into() }), ..self }
    }

    /// Refuses connections over TCP without TLS. The URL names the certificate of the authority.
    pub fn tls(self) -> Self {
        Self { tls: true, ..self }
    }

    /// Makes its wall clock settable by [`Server::set_clock`]. Needs [`FAKETIME`](super::FAKETIME).
    pub fn settable_clock(self) -> Self {
        Self { settable_clock: true, ..self }
    }

    /// Starts the server, and waits until it answers.
    pub fn start(self) -> Result<Server> {
        Server::alone(&self)
    }

    /// Returns the name and the password of the user of the URL.
    pub(super) fn login(&self) -> (&str, Option<&str>) {
        match &self.user {
            Some(user) => (&user.name, Some(&user.password)),
            None => ("postgres", self.password.as_deref()),
        }
    }

    /// Returns the file `postgresql.conf`.
    pub(super) fn configuration(&self, port: u16, folder: &Path) -> String {
        let place = folder.to_string_lossy();
        let mut fixed = vec![
            "listen_addresses=127.0.0.1".into(),
            format!("port={port}"),
            format!("unix_socket_directories={place}"),
            "shared_buffers=16MB".into(),
            "max_connections=100".into(),
            // In files of the data folder, which are removed with it.
            "dynamic_shared_memory_type=mmap".into(),
            "max_wal_size=128MB".into(),
        ];
        if !self.is_durable {
            fixed.extend(["fsync=off".into(), "full_page_writes=off".into()]);
        }
        if self.tls {
            fixed.extend([
                "ssl=on".into(),
                format!("ssl_cert_file={place}/server.pem"),
                format!("ssl_key_file={place}/server.key"),
            ]);
        }
        let mut text = String::new();
        for setting in fixed.iter().chain(&self.settings) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            writeln!(text, "{name} = {}", quoted(value)).expect("writing to a string cannot fail");
        }
        text
    }

    /// Returns the file `pg_hba.conf`. The folder of the socket is the protection of local
    /// connections.
    pub(super) fn access(&self) -> String {
        let kind = if self.tls { "hostssl" } else { "host" };
        let has_password = self.password.is_some() || self.user.is_some();
        let method = if has_password { "scram-sha-256" } else { "trust" };
        format!(
            "local all all trust\n\
             local replication all trust\n\
             {kind} all all 127.0.0.1/32 {method}\n"
        )
    }

    /// Returns the statements that create the users.
    pub(super) fn users(&self) -> String {
        let password = self.password.iter();
        let password = password.map(|it| format!("ALTER ROLE postgres PASSWORD {};\n", quoted(it)));
        let user = self.user.iter().map(|User { name, password }| {
            let name = name.replace('"', "\"\"");
            format!(
                "CREATE ROLE \"{name}\" LOGIN PASSWORD {};\n\
                 GRANT CREATE ON DATABASE postgres TO \"{name}\";\n",
                quoted(password)
            )
        });
        password.chain(user).collect()
    }
}

/// Returns a text as SQL and the configuration write it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::{Setup, quoted};
    use std::path::Path;

    #[test]
    fn any_text_can_be_written() {
        assert_eq!(quoted("it's"), "'it''s'");
    }

    #[test]
    fn own_settings_come_last() {
        let text = Setup::new().setting("port=7").configuration(1, Path::new("/there"));
        assert_eq!(text.lines().last(), Some("port = '7'"));
    }

    #[test]
    fn only_a_user_with_a_password_needs_one() {
        assert!(Setup::new().access().ends_with("host all all 127.0.0.1/32 trust\n"));
        let both = Setup::new().tls().password("p");
        assert!(both.access().ends_with("hostssl all all 127.0.0.1/32 scram-sha-256\n"));
    }
}
