//! The configuration of a server, before it is started.

use std::fmt::Write as _;

use super::{Rights, Server};
use crate::port::Port;
use crate::{Result, Tool};

/// The default rights of a user: those of an engine, without the administration of the server.
const RIGHTS: [&str; 8] =
    ["~tenure*", "&tenure*", "+@all", "-@admin", "-@dangerous", "+info", "+role", "+config|get"];
/// The password of the default user if a setup has only another user.
const ADMIN_PASSWORD: &str = "of-the-default-user";

/// A configuration of a server. By default the server writes no data to disk.
#[derive(Clone, Debug)]
#[must_use = "nothing is started yet"]
pub struct Setup {
    pub(super) program: Tool,
    pub(super) password: Option<String>,
    pub(super) user: Option<User>,
    pub(super) tls: Option<Tls>,
    pub(super) role: Role,
    pub(super) settable_clock: bool,
    pub(super) socket: bool,
    pub(super) master: Option<(u16, Option<String>)>,
    settings: Vec<Vec<String>>,
}

/// A user with fewer rights than the default user.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    rights: Vec<String>,
}

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Single,
    /// A node of a cluster.
    Node,
    Sentinel,
}

/// The credentials that a server with TLS requires of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tls {
    Nothing,
    Certificate,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            program: super::REDIS,
            password: None,
            user: None,
            tls: None,
            role: Role::Single,
            settable_clock: false,
            socket: false,
            master: None,
            settings: Vec::new(),
        }
    }
}

impl Setup {
    /// Returns the setup of a plain server: no password, no TLS, nothing on disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Uses Valkey instead of Redis.
    pub fn valkey(self) -> Self {
        self.program(super::VALKEY)
    }

    /// Adds a line to the configuration: `&["maxmemory", "1mb"]`. A later line for the same setting
    /// replaces an earlier one.
    pub fn setting(mut self, words: &[&str]) -> Self {
        self.settings.push(words.iter().map(|&word| word.into()).collect());
        self
    }

    /// Sets the password of the default user.
    pub fn password(self, password: &str) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// Adds a user for keys and channels that begin with `tenure`, without rights of
    /// administration.
    ///
    /// The URL has the login of this user. The default user gets a password if it has none, so that
    /// a client without a login is refused.
    pub fn user(self, name: &str, password: &str) -> Self {
        self.user_with(name, password, &RIGHTS)
    }

    /// Adds a user with exactly these rights, written as for `ACL SETUSER`.
    pub fn user_with(self, name: &str, password: &str, rights: &[&str]) -> Self {
        let admin = self.password.or_else(|| Some(ADMIN_PASSWORD.into()));
        let rights = rights.iter().map(|&right| right.into()).collect();
        let user = User { name: name.into(), password: password.into(), rights };
        Self { user: Some(user), password: admin, ..self }
    }

    /// Adds a user with exactly the rights that the README of the engine lists.
    pub fn limited_user(self, name: &str, password: &str, rights: Rights) -> Self {
        self.user_with(name, password, &rights.words())
    }

    /// Adds a second port with TLS, which the URL then has. [`Server::command`] uses the first
    /// port.
    pub fn tls(self) -> Self {
        Self { tls: Some(Tls::Nothing), ..self }
    }

    /// Adds a second port with TLS that requires a client certificate. The URL names one.
    pub fn mutual_tls(self) -> Self {
        Self { tls: Some(Tls::Certificate), ..self }
    }

    /// Writes a log to disk before each answer: a killed server restarts with all its data.
    pub fn appendonly(self) -> Self {
        self.setting(&["appendonly", "yes"]).setting(&["appendfsync", "always"])
    }

    /// Adds a Unix socket, [`Server::socket`].
    pub fn unix_socket(self) -> Self {
        Self { socket: true, ..self }
    }

    /// Makes it a replica of `master`. It is ready when it has caught up.
    pub fn replica_of(self, master: &Server) -> Self {
        let password = master.setup().password.clone();
        Self { master: Some((master.port(), password)), ..self }
    }

    /// Makes it a node of a cluster. [`Cluster`](super::Cluster) creates a whole cluster.
    pub fn cluster(self) -> Self {
        Self { role: Role::Node, ..self }
    }

    /// Makes its wall clock settable by [`Server::set_clock`]. Needs [`FAKETIME`](super::FAKETIME).
    ///
    /// Works with programs that use the system's allocator or a shared jemalloc, as Debian's do.
    pub fn settable_clock(self) -> Self {
        Self { settable_clock: true, ..self }
    }

    /// Starts the server, and waits until it answers.
    pub fn start(self) -> Result<Server> {
        Server::with_ports(&self, Port::claim)
    }

    /// Returns the setup of a sentinel, which knows few settings of a server.
    pub(super) fn sentinel() -> Self {
        Self { role: Role::Sentinel, ..Self::default() }
    }

    /// Uses another program.
    pub(super) fn program(self, program: Tool) -> Self {
        Self { program, ..self }
    }

    /// Returns the configuration file. `places` are the lines with ports and paths.
    pub(super) fn written(&self, places: &[Vec<String>]) -> String {
        let mut text = String::new();
        let fixed = if self.role == Role::Sentinel { Vec::new() } else { self.fixed() };
        for words in places.iter().chain(&fixed).chain(&self.settings) {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            writeln!(text, "{}", words.join(" ")).expect("writing to a string cannot fail");
        }
        text
    }

    fn fixed(&self) -> Vec<Vec<String>> {
        let mut lines = vec![
            line(&["save", ""]),
            line(&["enable-debug-command", "yes"]),
            // Send a snapshot at once, without waiting for more replicas to share it.
            line(&["repl-diskless-sync-delay", "0"]),
            // The nodes of a cluster list a replica after a ping of its master.
            line(&["repl-ping-replica-period", "1"]),
        ];
        if let Some(password) = &self.password {
            lines.extend([line(&["requirepass", password]), line(&["masterauth", password])]);
        }
        if let Some(User { name, password, rights }) = &self.user {
            let password = format!(">{password}");
            let user = line(&["user", name, "on", &password]).into_iter();
            lines.push(user.chain(rights.iter().cloned()).collect());
        }
        if let Some((port, password)) = &self.master {
            lines.push(line(&["replicaof", "127.0.0.1", &port.to_string()]));
            lines.extend(password.iter().map(|password| line(&["masterauth", password])));
        }
        if self.role == Role::Node {
            lines.push(line(&["cluster-enabled", "yes"]));
            lines.push(line(&["cluster-node-timeout", "2000"]));
            // A replica may take over however long it had no link to its master.
            lines.push(line(&["cluster-replica-validity-factor", "0"]));
        }
        lines
    }
}

/// Returns a line of a configuration as words.
pub(super) fn line(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.into()).collect()
}

fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in word.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => write!(quoted, "\\x{byte:02x}").expect("writing to a string cannot fail"),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::{Setup, line, quoted};

    #[test]
    fn any_word_can_be_written() {
        assert_eq!(quoted("a b"), "\"a b\"");
        assert_eq!(quoted("\"\\\n"), "\"\\\"\\\\\\x0a\"");
        assert_eq!(quoted(""), "\"\"");
    }

    #[test]
    fn own_settings_come_last() {
        let text = Setup::new().setting(&["save", "60", "1"]).written(&[line(&["port", "7"])]);
        let (first, last) = (text.lines().next(), text.lines().last());
        assert_eq!((first, last), (Some("\"port\" \"7\""), Some("\"save\" \"60\" \"1\"")));
    }
}
