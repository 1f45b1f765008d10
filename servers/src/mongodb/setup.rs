//! The configuration of a server, before it is started.

use bson::Document;

use super::Server;
use super::rights;
use crate::Result;

/// A configuration of a server. The default is a replica set of one member without access control.
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

/// The user of a server with access control.
#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) password: String,
    /// The command that creates the role. Without one the user has all rights.
    pub(super) role: Option<Document>,
}

impl Setup {
    /// Returns the setup of a replica set of one member.
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

    /// Makes it a server outside a set, which has no change streams.
    pub fn standalone(self) -> Self {
        Self { set: None, ..self }
    }

    /// Turns access control on, with a user that has the role of the engine's README.
    pub fn limited_user(self, name: &str, password: &str) -> Self {
        self.user(name, password, Some(rights::role()))
    }

    /// Turns access control on, with a user that has the role of this command, `createRole`.
    pub fn user_with_role(self, name: &str, password: &str, role: Document) -> Self {
        self.user(name, password, Some(role))
    }

    /// Turns TLS on, also in the URL.
    pub fn tls(self) -> Self {
        Self { tls: true, ..self }
    }

    /// Sets the interval of the TTL monitor. The default is one second.
    pub fn ttl_monitor_every_s(self, seconds: u32) -> Self {
        Self { ttl_every_s: seconds, ..self }
    }

    /// Sets the interval of checkpoints. The oplog keeps later entries, even beyond its size.
    pub fn checkpoint_every_s(self, seconds: u32) -> Self {
        Self { checkpoint_every_s: Some(seconds), ..self }
    }

    /// Makes its wall clock settable by [`Server::set_clock`]. Needs [`FAKETIME`](super::FAKETIME).
    pub fn settable_clock(self) -> Self {
        Self { settable_clock: true, ..self }
    }

    /// Gives its wall clock a constant offset, which costs less than a settable one. Needs
    /// [`FAKETIME`](super::FAKETIME).
    pub fn clock_off_by_s(self, seconds: i64) -> Self {
        Self { clock_off_by_s: seconds, ..self }
    }

    /// Starts a server with this setup.
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
