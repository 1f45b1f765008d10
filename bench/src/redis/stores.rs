//! The servers of one run, and whether its cores are kept awake.

use tenure_servers::redis::{Masters, Server};

pub(crate) struct Stores {
    pub(crate) urls: Vec<String>,
    /// The servers' processes.
    pub(crate) pids: Vec<u32>,
    /// What the names of the rows begin with.
    suite: String,
}

impl Stores {
    pub(crate) fn of(masters: &Masters, suite: &str) -> Self {
        let servers = masters.servers();
        Self {
            urls: servers.iter().map(Server::url).collect(),
            pids: servers.iter().map(|server| server.pid().unwrap()).collect(),
            suite: suite.to_owned(),
        }
    }

    /// The same, while the cores stay awake.
    pub(crate) fn awake(self) -> Self {
        Self { suite: format!("{}, cores awake", self.suite), ..self }
    }

    /// The name of a row.
    pub(crate) fn case(&self, case: &str) -> String {
        format!("{}: {case}", self.suite)
    }
}
