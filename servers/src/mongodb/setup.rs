//! A setup says what a server is to be, before it is started.

use bson::Document;

use super::Server;
use super::rights;
use crate::Result;

/// What a server is to be. A new one is a replica set of one member, open to everybody.
#[derive(Clone, Debug)]
#[must_use]
pub struct Setup {
    pub(super) set: Option<&'static str>,
    pub(super) user: Option<User>,
    pub(super) tls: bool,
    pub(super) ttl_every_s: u32,
    pub(super) checkpoint_every_s: Option<u32>,
    pub(super) settable_clock: bool,
    pub(super) clock_off_by_s: i64,
}

/// Who may log in, and what they may do.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    /// The command that makes the role; without one the user may do everything.
    pub(super) role: Option<Document>,
}

impl Setup {
    /// A replica set of one member.
    pub fn new() -> Self {
        Self {
            set: Some("rs0"),
            user: None,
            tls: false,
            ttl_every_s: 1,
            checkpoint_every_s: None,
            settable_clock: false,
            clock_off_by_s: 0,
        }
    }

    /// A server that belongs to no set: it has no change streams.
    pub fn standalone(self) -> Self {
        Self { set: None, ..self }
    }

    /// Nobody gets in but this user, who has the role that the README of the engine tells operators
    /// to make.
    pub fn limited_user(self, name: &str, password: &str) -> Self {
        self.user(name, password, Some(rights::role()))
    }

    /// Nobody gets in but this user, who may do what this command, `createRole`, says.
    pub fn user_with_role(self, name: &str, password: &str, role: Document) -> Self {
        self.user(name, password, Some(role))
    }

    /// Clients may speak TLS, and the URL says so.
    pub fn tls(self) -> Self {
        Self { tls: true, ..self }
    }

    /// How often records are reaped that a TTL index finds too old; one second if it is not said.
    pub fn ttl_monitor_every_s(self, seconds: u32) -> Self {
        Self { ttl_every_s: seconds, ..self }
    }

    /// How often everything is written to disk. The oplog keeps what was not, even beyond its size.
    pub fn checkpoint_every_s(self, seconds: u32) -> Self {
        Self { checkpoint_every_s: Some(seconds), ..self }
    }

    /// Its wall clock can be set, by [`Server::set_clock`]; needs [`FAKETIME`](super::FAKETIME).
    pub fn settable_clock(self) -> Self {
        Self { settable_clock: true, ..self }
    }

    /// Its wall clock is so many seconds ahead of the true time, or behind it, and costs less than one that can be set; needs
    /// [`FAKETIME`](super::FAKETIME).
    pub fn clock_off_by_s(self, seconds: i64) -> Self {
        Self { clock_off_by_s: seconds, ..self }
    }

    /// Starts a server like this.
    pub fn start(self) -> Result<Server> {
        Server::alone(self)
    }

    fn user(self, name: &str, password: &str, role: Option<Document>) -> Self {
        let user = User { name: name.into(), password: password.into(), role };
        Self { user: Some(user), ..self }
    }
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}
