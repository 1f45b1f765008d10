//! The configuration of a server, before it is started.

use std::path::Path;

use super::{GALERA, Server};
use crate::Result;

/// A configuration of a server. The default writes a commit to a file and does not flush it, and
/// needs no password.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is started yet"]
pub struct Setup {
    pub(super) is_durable: bool,
    pub(super) user: Option<User>,
    pub(super) tls: bool,
    pub(super) has_small_disk: bool,
    settings: Vec<String>,
}

/// A user with fewer rights than `root`.
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

    /// Flushes every commit to disk. Without this, only a failure of the machine loses a commit.
    pub fn durable(self) -> Self {
        Self { is_durable: true, ..self }
    }

    /// Adds a setting: `max_connections=20`. A later one replaces an earlier one.
    pub fn setting(mut self, setting: &str) -> Self {
        self.settings.push(setting.into());
        self
    }

    /// Adds a user with the rights to make and use tables and procedures in the database `locks`,
    /// and with a password. The URL has the login of this user.
    pub fn limited_user(self, name: &str, password: &str) -> Self {
        Self { user: Some(User { name: name.into(), password: password.into() }), ..self }
    }

    /// Offers TLS. The URL names the certificate of the authority.
    pub fn tls(self) -> Self {
        Self { tls: true, ..self }
    }

    /// Puts the data on a file system of its own, which [`Server::fill_disk`] fills. The data is
    /// gone once the server is killed. The system must let this user mount: see
    /// [`may_mount`](super::may_mount).
    pub fn small_disk(self) -> Self {
        Self { has_small_disk: true, ..self }
    }

    /// Makes the server write a binary log, so that it may have [replicas](Server::replica).
    pub fn binary_log(self) -> Self {
        ["log_bin=log", "server_id=1"].into_iter().fold(self, Self::setting)
    }

    /// Makes the server the first node of a new Galera cluster, which has no other.
    pub fn galera(self) -> Self {
        let provider = format!("wsrep_provider={}", GALERA.name);
        let settings = [
            "wsrep_on=ON",
            &provider,
            "wsrep_cluster_address=gcomm://",
            "wsrep_sst_method=skip",
            // The group listens on a port of the kernel's choice.
            "wsrep_provider_options=gmcast.listen_addr=tcp://127.0.0.1:0;gcache.size=1M",
            "binlog_format=ROW",
            "innodb_autoinc_lock_mode=2",
        ];
        settings.into_iter().fold(self, Self::setting)
    }

    /// Starts the server, and waits until it answers.
    pub fn start(self) -> Result<Server> {
        Server::with_setup(&self)
    }

    /// Returns the name and the password of the user of the URL.
    pub(super) fn login(&self) -> (&str, Option<&str>) {
        self.user.as_ref().map_or(("root", None), |user| (&user.name, Some(&user.password)))
    }

    /// Returns the file `my.cnf`.
    pub(super) fn configuration(&self, port: u16, folder: &Path) -> String {
        let place = folder.to_string_lossy();
        let mut lines = vec![
            "[mariadbd]".to_owned(),
            format!("datadir={place}/data"),
            // A server that starts deletes the temporary files of others in its folder.
            format!("tmpdir={place}"),
            format!("socket={place}/socket"),
            format!("pid-file={place}/pid"),
            format!("port={port}"),
            "bind-address=127.0.0.1".to_owned(),
            "skip-name-resolve".to_owned(),
            // In a pool with fewer free pages than `innodb_lru_scan_depth`, which is 24 MiB, the
            // server writes each page at once, and reads it again for the next statement.
            "innodb_buffer_pool_size=64M".to_owned(),
            "innodb_log_file_size=16M".to_owned(),
            "max_connections=2000".to_owned(),
            format!("innodb_flush_log_at_trx_commit={}", if self.is_durable { 1 } else { 2 }),
        ];
        if self.tls {
            for (name, file) in [("ca", "ca.pem"), ("cert", "server.pem"), ("key", "server.key")] {
                lines.push(format!("ssl_{name}={place}/{file}"));
            }
        }
        lines.extend(self.settings.iter().cloned());
        lines.join("\n") + "\n"
    }

    /// Returns the statements that create the database and the user.
    pub(super) fn first_statements(&self) -> String {
        let user = self.user.iter().map(|User { name, password }| {
            let (name, password) = (quoted(name), quoted(password));
            format!(
                "CREATE USER {name}@'%' IDENTIFIED BY {password};\n\
                 GRANT CREATE, CREATE ROUTINE, ALTER ROUTINE, EXECUTE, SELECT, INSERT, UPDATE, DELETE \
                 ON locks.* TO {name}@'%';\n"
            )
        });
        std::iter::once("CREATE DATABASE locks;\n".to_owned()).chain(user).collect()
    }
}

/// Returns a text as SQL writes it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::{Setup, quoted};
    use std::path::Path;

    #[test]
    fn any_text_can_be_written() {
        assert_eq!(quoted(r"it's \"), r"'it''s \\'");
    }

    #[test]
    fn own_settings_come_last() {
        let text = Setup::new().setting("port=7").configuration(1, Path::new("/there"));
        assert_eq!(text.lines().last(), Some("port=7"));
    }
}
