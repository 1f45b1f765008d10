//! A setup says how a server is to be, before it is started.

use std::fmt::Write as _;

use super::{Rights, Server};
use crate::port::Port;
use crate::{Result, Tool};

/// What a user may if a test says nothing else: all that an engine needs, and nothing that is about
/// other users.
const RIGHTS: [&str; 8] =
    ["~tenure*", "&tenure*", "+@all", "-@admin", "-@dangerous", "+info", "+role", "+config|get"];
/// The password of the default user where only another one is wished for.
const ADMIN_PASSWORD: &str = "of-the-default-user";

/// How a server is to be. Nothing is written to disk unless that is asked for.
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

/// Somebody who may do less than the default user.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    rights: Vec<String>,
}

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Single,
    /// One of a cluster.
    Node,
    Sentinel,
}

/// What a server wants to see from its clients.
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
    /// A plain server: no password, no TLS, nothing on disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Valkey in the place of Redis.
    pub fn valkey(self) -> Self {
        self.program(super::VALKEY)
    }

    /// One more line of its configuration: `&["maxmemory", "1mb"]`. Of two for the same
    /// thing, the later one holds.
    pub fn setting(mut self, words: &[&str]) -> Self {
        self.settings.push(words.iter().map(|&word| word.into()).collect());
        self
    }

    /// The default user has this password.
    pub fn password(self, password: &str) -> Self {
        Self { password: Some(password.into()), ..self }
    }

    /// A user who may touch keys and channels that begin with `tenure`, and may not administer.
    ///
    /// The URL is this user's. The default user gets a password if it has none yet: whoever forgets
    /// to say who he is can do nothing.
    pub fn user(self, name: &str, password: &str) -> Self {
        self.user_with(name, password, &RIGHTS)
    }

    /// The same, with these rights, in the words of `ACL SETUSER`, and no others.
    pub fn user_with(self, name: &str, password: &str, rights: &[&str]) -> Self {
        let admin = self.password.or_else(|| Some(ADMIN_PASSWORD.into()));
        let rights = rights.iter().map(|&right| right.into()).collect();
        let user = User { name: name.into(), password: password.into(), rights };
        Self { user: Some(user), password: admin, ..self }
    }

    /// The same, with the rights that the README of the engine tells operators to give, and no others.
    pub fn limited_user(self, name: &str, password: &str, rights: Rights) -> Self {
        self.user_with(name, password, &rights.words())
    }

    /// A second port, with TLS; the URL is of that one. The first stays, for [`Server::command`].
    pub fn tls(self) -> Self {
        Self { tls: Some(Tls::Nothing), ..self }
    }

    /// The same, and clients must show a certificate; the URL names one.
    pub fn mutual_tls(self) -> Self {
        Self { tls: Some(Tls::Certificate), ..self }
    }

    /// Every write is in a log on disk before it is answered: a killed server comes back with all.
    pub fn appendonly(self) -> Self {
        self.setting(&["appendonly", "yes"]).setting(&["appendfsync", "always"])
    }

    /// It also listens at [`Server::socket`].
    pub fn unix_socket(self) -> Self {
        Self { socket: true, ..self }
    }

    /// It follows that server, and is ready when it has caught up.
    pub fn replica_of(self, master: &Server) -> Self {
        let password = master.setup().password.clone();
        Self { master: Some((master.port(), password)), ..self }
    }

    /// It is a node for a cluster, alone so far. [`Cluster`](super::Cluster) makes a whole one.
    pub fn cluster(self) -> Self {
        Self { role: Role::Node, ..self }
    }

    /// Its wall clock can be set, by [`Server::set_clock`]; needs [`FAKETIME`](super::FAKETIME).
    ///
    /// Works with programs that use the system's allocator or a shared jemalloc, as Debian's do.
    pub fn settable_clock(self) -> Self {
        Self { settable_clock: true, ..self }
    }

    /// Starts it, and waits until it answers.
    pub fn start(self) -> Result<Server> {
        Server::with_ports(&self, Port::claim)
    }

    /// It watches over others: a sentinel knows few settings of a server.
    pub(super) fn sentinel() -> Self {
        Self { role: Role::Sentinel, ..Self::default() }
    }

    /// The same, with another program.
    pub(super) fn program(self, program: Tool) -> Self {
        Self { program, ..self }
    }

    /// The file that the program reads, given the lines that depend on its ports and its folder.
    pub(super) fn written(&self, places: &[Vec<String>]) -> String {
        let mut text = String::new();
        let fixed = if self.role == Role::Sentinel { Vec::new() } else { self.fixed() };
        for words in places.iter().chain(&fixed).chain(&self.settings) {
            let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
            writeln!(text, "{}", words.join(" ")).expect("a string takes all");
        }
        text
    }

    fn fixed(&self) -> Vec<Vec<String>> {
        let mut lines = vec![
            line(&["save", ""]),
            line(&["enable-debug-command", "yes"]),
            // A replica is wanted now, and not when others may have come to share its snapshot.
            line(&["repl-diskless-sync-delay", "0"]),
            // The nodes of a cluster show a replica when it has heard from its master.
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
            // A replica follows its master however long they have not heard of each other.
            lines.push(line(&["cluster-replica-validity-factor", "0"]));
        }
        lines
    }
}

/// A line of a configuration, as words.
pub(super) fn line(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.into()).collect()
}

fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in word.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..=b'~' => quoted.push(char::from(byte)),
            _ => write!(quoted, "\\x{byte:02x}").expect("a string takes all"),
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
