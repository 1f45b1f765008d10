//! The settings of a URL: the servers of an ensemble, and its options.

use std::time::Duration;

use tenure_kit::tls::Files;
use tenure_kit::url::{Address, Login};
use zookeeper_client::{Acl, AuthId, Permission};

/// Default node below which everything is kept.
pub(crate) const PREFIX: &str = "tenure";

/// The settings of an ensemble.
#[derive(Clone)]
pub(crate) struct Settings {
    /// At least one.
    pub(crate) servers: Vec<Address>,
    pub(crate) login: Login,
    /// The node that is the root, such as `/app`; empty for the root itself. It must exist.
    pub(crate) chroot: String,
    /// The node below which everything is kept, without its first slash. The engine makes it if it
    /// does not exist.
    pub(crate) prefix: String,
    /// The users that may see and change the nodes: by default the creator if the URL has a user,
    /// or else all users.
    pub(crate) acl: Option<Whom>,
    pub(crate) tls: Option<Files>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
}

/// The users that may see and change the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Everybody,
    /// The creator: the user of the URL.
    Creator,
    /// A user and the hash of a password, as ZooKeeper writes them.
    Digest(String),
}

impl Settings {
    /// Returns the default settings.
    pub(crate) fn of(servers: Vec<Address>, login: Login) -> Self {
        Self {
            servers,
            login,
            chroot: String::new(),
            prefix: PREFIX.to_owned(),
            acl: None,
            tls: None,
            connect_timeout: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
        }
    }

    /// Returns the access control list of new nodes.
    pub(crate) fn acls(&self) -> Vec<Acl> {
        let usual = if self.login.user.is_some() { Whom::Creator } else { Whom::Everybody };
        let whom = match self.acl.clone().unwrap_or(usual) {
            Whom::Everybody => AuthId::anyone(),
            Whom::Creator => AuthId::authed(),
            Whom::Digest(id) => AuthId::new("digest", &id),
        };
        vec![Acl::new(Permission::ALL, whom)]
    }

    /// Returns the servers and the chroot in the form of ZooKeeper's clients.
    pub(crate) fn ensemble(&self) -> String {
        format!("{}{}", self.named_servers().join(","), self.chroot)
    }

    /// Returns the maximum time of one verb: it may have to find a connection, and then use it.
    pub(crate) fn answers_within(&self) -> Duration {
        self.timeout * 2
    }

    /// Returns the maximum time to open a session: a frozen server is tried, too.
    pub(crate) fn connects_within(&self) -> Duration {
        let servers = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        self.connect_timeout.saturating_mul(servers)
    }

    /// Returns the name of the ensemble for an error, without user and password.
    pub(crate) fn whom(&self) -> String {
        format!("ZooKeeper at {}", self.named_servers().join(", "))
    }

    fn named_servers(&self) -> Vec<String> {
        self.servers.iter().map(Address::to_string).collect()
    }
}
