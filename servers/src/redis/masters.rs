//! Masters are servers that know nothing of each other, as RedLock wants them.

use super::{Server, Setup};
use crate::{Result, Store};

/// Servers without any tie between them.
#[derive(Debug)]
pub struct Masters {
    servers: Vec<Server>,
}

impl Masters {
    /// Starts so many plain ones.
    pub fn start(count: usize) -> Result<Self> {
        Self::of(&Setup::new(), count)
    }

    /// Starts so many of one kind.
    pub fn of(setup: &Setup, count: usize) -> Result<Self> {
        let servers = (0..count).map(|_| setup.clone().start()).collect::<Result<_>>()?;
        Ok(Self { servers })
    }

    /// Each of them.
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

/// The addresses of a URL that has several.
pub(super) fn addresses(servers: &[Server]) -> String {
    let all = servers.iter().map(|server| format!("127.0.0.1:{}", server.port()));
    all.collect::<Vec<_>>().join(",")
}

/// Who the client of all these is to be.
pub(super) fn login(servers: &[Server]) -> String {
    servers.first().map(Server::login).unwrap_or_default()
}
