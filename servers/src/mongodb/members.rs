//! Members keep the same documents; one of them takes the writes, until another does.

use bson::doc;

use super::{Server, Setup};
use crate::patience::until;
use crate::{Result, Store};

/// The name of the set.
const SET: &str = "rs0";

/// A replica set of several members.
#[derive(Debug)]
pub struct Members {
    servers: Vec<Server>,
}

impl Members {
    /// Starts so many, open to everybody, and waits until one of them takes writes.
    pub fn start(count: usize) -> Result<Self> {
        Self::start_with(&vec![Setup::new(); count])
    }

    /// The same with these setups, one for each.
    pub fn start_with(setups: &[Setup]) -> Result<Self> {
        let servers: Vec<_> = setups.iter().map(Server::member).collect::<Result<_>>()?;
        let members = Self { servers };
        let first = members.servers.first().ok_or("A set has one member at least.")?;
        first.initiate(SET, &members.servers.iter().collect::<Vec<_>>())?;
        let primary = members.primary()?;
        // The members have all caught up when the first write is on each of them.
        let everywhere =
            doc! { "w": i64::try_from(setups.len()).unwrap_or(i64::MAX), "wtimeout": 20_000 };
        let record = doc! { "insert": "begun", "documents": [{}], "writeConcern": everywhere };
        primary.command("servers", record)?;
        Ok(members)
    }

    /// The URL that names them all.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.servers.iter().map(Server::address).collect();
        self.servers.first().map_or_else(String::new, |first| first.url_of(&addresses.join(",")))
    }

    /// The members.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Who takes writes, as soon as somebody does.
    pub fn primary(&self) -> Result<&Server> {
        self.primary_among(|_| true)
    }

    /// Who takes writes after this one was killed, frozen or told to step down.
    pub fn next_primary(&self, old: &Server) -> Result<&Server> {
        self.primary_among(|server| server.port() != old.port())
    }

    fn primary_among(&self, may_be: impl Fn(&Server) -> bool) -> Result<&Server> {
        until(|| {
            let mut those = self.servers.iter().filter(|server| may_be(server));
            those.find(|it| it.is_primary()).ok_or_else(|| "No member takes writes.".into())
        })
    }
}

impl Store for Members {
    fn url(&self) -> String {
        Self::url(self)
    }
}
