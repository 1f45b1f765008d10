//! A replica set of several members, of which one is the primary.

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
    /// Starts this number of members without access control, and waits for a primary.
    pub fn start(count: usize) -> Result<Self> {
        Self::start_with(&vec![Setup::new(); count])
    }

    /// Starts one member for each setup, and waits for a primary.
    pub fn start_with(setups: &[Setup]) -> Result<Self> {
        let servers: Vec<_> = setups.iter().map(Server::member).collect::<Result<_>>()?;
        let members = Self { servers };
        let first = members.servers.first().ok_or("A set has one member at least.")?;
        first.initiate(SET, &members.servers.iter().collect::<Vec<_>>())?;
        let primary = members.primary()?;
        // All members have caught up once each of them has the first write.
        let everywhere =
            doc! { "w": i64::try_from(setups.len()).unwrap_or(i64::MAX), "wtimeout": 20_000 };
        let record = doc! { "insert": "begun", "documents": [{}], "writeConcern": everywhere };
        primary.command("servers", record)?;
        Ok(members)
    }

    /// Returns the URL with all members.
    pub fn url(&self) -> String {
        let addresses: Vec<_> = self.servers.iter().map(Server::address).collect();
        self.servers.first().map_or_else(String::new, |first| first.url_of(&addresses.join(",")))
    }

    /// The members.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Waits for a primary, and returns it.
    pub fn primary(&self) -> Result<&Server> {
        self.primary_among(|_| true)
    }

    /// Waits for a primary other than `old`, which was killed, frozen or stepped down.
    pub fn next_primary(&self, old: &Server) -> Result<&Server> {
        self.primary_among(|server| server.port() != old.port())
    }

    fn primary_among(&self, may_be: impl Fn(&Server) -> bool) -> Result<&Server> {
        until(|| {
            let mut those = self.servers.iter().filter(|server| may_be(server));
            those.find(|it| it.is_primary()).ok_or_else(|| "No member accepts writes.".into())
        })
    }
}

impl Store for Members {
    fn url(&self) -> String {
        Self::url(self)
    }
}
