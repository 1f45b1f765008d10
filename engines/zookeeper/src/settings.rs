//! Which servers keep the lines, and on what terms they are spoken to: what a URL says.

use std::time::Duration;

use tenure_kit::tls::Files;
use tenure_kit::url::{Address, Login};
use zookeeper_client::{Acl, AuthId, Permission};

/// The node below which everything is kept, where a URL names none.
pub(crate) const PREFIX: &str = "tenure";

/// On what terms the ensemble is spoken to.
#[derive(Clone)]
pub(crate) struct Settings {
    /// One at least.
    pub(crate) servers: Vec<Address>,
    pub(crate) login: Login,
    /// The node that stands for the root, such as `/app`; empty for the root itself. It must be there.
    pub(crate) chroot: String,
    /// The node below which everything is kept, without its first slash. It is made if it is not there.
    pub(crate) prefix: String,
    /// Who may see and change what is kept; whoever made it, if somebody is logged in, or else everybody.
    pub(crate) acl: Option<Whom>,
    pub(crate) tls: Option<Files>,
    pub(crate) connect_timeout: Duration,
    pub(crate) timeout: Duration,
}

/// Who may see and change what is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Everybody,
    /// Whoever made it: the user of the URL.
    Creator,
    /// A user and the hash of a password, as ZooKeeper writes them.
    Digest(String),
}

impl Settings {
    /// What holds where a URL says nothing.
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

    /// What nodes are made with.
    pub(crate) fn acls(&self) -> Vec<Acl> {
        let usual = if self.login.user.is_some() { Whom::Creator } else { Whom::Everybody };
        let whom = match self.acl.clone().unwrap_or(usual) {
            Whom::Everybody => AuthId::anyone(),
            Whom::Creator => AuthId::authed(),
            Whom::Digest(id) => AuthId::new("digest", &id),
        };
        vec![Acl::new(Permission::ALL, whom)]
    }

    /// The servers and the chroot, as ZooKeeper's clients write them.
    pub(crate) fn ensemble(&self) -> String {
        format!("{}{}", self.named_servers().join(","), self.chroot)
    }

    /// The longest that one verb takes: a connection may have to be found, and then asked.
    pub(crate) fn answers_within(&self) -> Duration {
        self.timeout * 2
    }

    /// The longest that it takes to open a session: a server that is frozen is tried, too.
    pub(crate) fn connects_within(&self) -> Duration {
        let servers = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        self.connect_timeout.saturating_mul(servers)
    }

    /// How an error may name the ensemble: without user and password.
    pub(crate) fn whom(&self) -> String {
        format!("ZooKeeper at {}", self.named_servers().join(", "))
    }

    fn named_servers(&self) -> Vec<String> {
        self.servers.iter().map(Address::to_string).collect()
    }
}
