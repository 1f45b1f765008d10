//! Independent masters, as RedLock needs them.

use super::{Server, Setup};
use crate::{Result, Store};

/// Servers that are independent of each other.
#[derive(Debug)]
pub struct Masters {
    servers: Vec<Server>,
}

impl Masters {
    /// Starts this number of plain servers.
    pub fn start(count: usize) -> Result<Self> {
        Self::of(&Setup::new(), count)
    }

    /// Starts this number of servers with this setup.
    pub fn of(setup: &Setup, count: usize) -> Result<Self> {
        let servers = (0..count).map(|_| setup.clone().start()).collect::<Result<_>>()?;
        Ok(Self { servers })
    }

    /// The servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// `redlock://127.0.0.1:a,127.0.0.1:b,…`.
    pub fn url(&self) -> String {
        format!("redlock://{}{}", login(&self.servers), addresses(&self.servers))
    }
}

impl Store for Masters {
    fn url(&self) -> String {
        Self::url(self)
    }
}

/// Returns the addresses for a URL, separated by commas.
pub(super) fn addresses(servers: &[Server]) -> String {
    let all = servers.iter().map(|server| format!("127.0.0.1:{}", server.port()));
    all.collect::<Vec<_>>().join(",")
}

/// Returns the login for a URL of these servers.
pub(super) fn login(servers: &[Server]) -> String {
    servers.first().map(Server::login).unwrap_or_default()
}
