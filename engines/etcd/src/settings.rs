//! The settings of a URL: the members of a cluster, and its options.

use std::time::Duration;

use tenure_kit::tls::Files;
use tenure_kit::url::{Address, Login};

/// Default prefix of all keys.
pub(crate) const PREFIX: &str = "tenure";

/// The settings of a cluster.
#[derive(Clone)]
pub(crate) struct Settings {
    /// At least one.
    pub(crate) members: Vec<Address>,
    pub(crate) login: Login,
    /// Prefix of all keys.
    pub(crate) prefix: String,
    pub(crate) tls: Option<Files>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
    /// Minimum ttl of sessions.
    pub(crate) session_ttl: Duration,
}

impl Settings {
    /// Returns the default settings.
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
