//! Which members keep the lines, and on what terms they are spoken to: what a URL says.

use std::time::Duration;

use tenure_kit::tls::Files;
use tenure_kit::url::{Address, Login};

/// What the names of all keys begin with where a URL says nothing.
pub(crate) const PREFIX: &str = "tenure";

/// On what terms the cluster is spoken to.
#[derive(Clone)]
pub(crate) struct Settings {
    /// One at least.
    pub(crate) members: Vec<Address>,
    pub(crate) login: Login,
    /// What the names of all keys begin with.
    pub(crate) prefix: String,
    pub(crate) tls: Option<Files>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    /// No session lives shorter without a sign of life.
    pub(crate) session_ttl: Duration,
}

impl Settings {
    /// What holds where a URL says nothing.
    pub(crate) fn of(members: Vec<Address>, login: Login) -> Self {
        Self {
            members,
            login,
            prefix: PREFIX.to_owned(),
            tls: None,
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            session_ttl: Duration::ZERO,
        }
    }

    /// The longest that one verb takes: all members may have to be tried, and then asked.
    pub(crate) fn answers_within(&self) -> Duration {
        self.timeout * 2
    }

    /// How an error may name the cluster: without user and password.
    pub(crate) fn whom(&self) -> String {
        format!("etcd at {}", self.addresses())
    }

    /// The members' addresses, as a sentence lists them.
    pub(crate) fn addresses(&self) -> String {
        let members: Vec<_> = self.members.iter().map(Address::to_string).collect();
        members.join(", ")
    }
}
