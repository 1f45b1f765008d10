//! Sentinels, which monitor a master and its replicas and promote a replica when the master is
//! gone.

use super::masters::addresses;
use super::{Reply, Server, Setup};
use crate::patience::until;
use crate::{Result, Store};

/// The name of the service in the URL.
const NAME: &str = "tenure";
/// Number of sentinels.
const SENTINELS: usize = 3;
/// Number of sentinels that must agree that a master is gone.
const QUORUM: &str = "2";
/// Time without an answer after which a master counts as gone.
const DOWN_AFTER_MS: &str = "1000";
/// Time limit of a failover before the next attempt.
const FAILOVER_TIMEOUT_MS: &str = "3000";
/// Interval of pings and announcements. With the defaults, sentinels need seconds to find each
/// other.
const PERIOD_MS: &str = "100";

/// Three sentinels with a master and its replicas.
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<Server>,
    servers: Vec<Server>,
}

impl Sentinels {
    /// Starts sentinels for a plain master with one replica.
    pub fn start() -> Result<Self> {
        Self::over(&Setup::new(), 1)
    }

    /// Starts sentinels for a master with this setup and this number of replicas.
    pub fn over(setup: &Setup, replicas: usize) -> Result<Self> {
        let master = setup.clone().start()?;
        let mut servers = Vec::with_capacity(replicas + 1);
        for _ in 0..replicas {
            servers.push(setup.clone().replica_of(&master).start()?);
        }
        let sentinels = (0..SENTINELS).map(|_| sentinel(&master)).collect::<Result<_>>()?;
        servers.insert(0, master);
        let set = Self { sentinels, servers };
        for sentinel in &set.sentinels {
            until(|| set.is_known_to(sentinel))?;
        }
        Ok(set)
    }

    /// `redis+sentinel://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c/tenure`.
    pub fn url(&self) -> String {
        let login = super::masters::login(&self.servers);
        format!("redis+sentinel://{login}{}/{NAME}", addresses(&self.sentinels))
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The monitored servers. The first was the master at the start.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the current master according to the first sentinel that answers.
    pub fn master(&self) -> Result<&Server> {
        let mut last = String::from("There is no sentinel.");
        for sentinel in &self.sentinels {
            match self.master_according_to(sentinel) {
                Ok(master) => return Ok(master),
                Err(why) => last = why,
            }
        }
        Err(last)
    }

    /// Waits until all running sentinels name another master, and it has the role of a master.
    pub fn next_master(&self, old: &Server) -> Result<&Server> {
        until(|| {
            let running = self.sentinels.iter().filter(|it| it.pid().is_ok());
            let mut named = running.map(|it| self.master_according_to(it));
            let first = named.next().ok_or("No sentinel runs.")??;
            for other in named {
                if other?.port() != first.port() {
                    return Err("The sentinels do not agree on a master.".into());
                }
            }
            if first.port() == old.port() {
                return Err("The sentinels name the old master.".into());
            }
            let role = first.command(&["ROLE"])?.at(0)?.text()?;
            if role == "master" { Ok(first) } else { Err(format!("The next master is a {role}.")) }
        })
    }

    fn master_according_to(&self, sentinel: &Server) -> Result<&Server> {
        let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        let port = address.at(1)?.integer()?;
        let server = self.servers.iter().find(|it| i64::from(it.port()) == port);
        server.ok_or_else(|| format!("The sentinels name an unknown server at port {port}."))
    }

    /// Whether the sentinel could lead a failover: it knows all sentinels and replicas.
    fn is_known_to(&self, sentinel: &Server) -> Result<()> {
        let quorum = sentinel.command(&["SENTINEL", "CKQUORUM", NAME])?.text()?;
        if !quorum.starts_with(&format!("OK {SENTINELS} ")) {
            return Err(format!("A sentinel answers: {quorum}."));
        }
        let replicas = sentinel.command(&["SENTINEL", "REPLICAS", NAME])?;
        let well = replicas.list()?.iter().filter(|replica| is_well(replica)).count();
        if well + 1 == self.servers.len() {
            return Ok(());
        }
        Err(format!("A sentinel knows {well} of {} replicas.", self.servers.len() - 1))
    }
}

impl Store for Sentinels {
    fn url(&self) -> String {
        Self::url(self)
    }
}

fn sentinel(master: &Server) -> Result<Server> {
    let port = master.port().to_string();
    let mut setup = Setup::sentinel()
        .setting(&["sentinel", "monitor", NAME, "127.0.0.1", &port, QUORUM])
        .setting(&["sentinel", "down-after-milliseconds", NAME, DOWN_AFTER_MS])
        .setting(&["sentinel", "failover-timeout", NAME, FAILOVER_TIMEOUT_MS])
        .setting(&["sentinel", "parallel-syncs", NAME, "1"]);
    if let Some(password) = &master.setup().password {
        setup = setup.setting(&["sentinel", "auth-pass", NAME, password]);
    }
    let sentinel = setup.program(master.setup().program).start()?;
    for period in ["info-period", "publish-period"] {
        sentinel.command(&["SENTINEL", "DEBUG", period, PERIOD_MS])?;
    }
    Ok(sentinel)
}

/// Each replica is a list of names and values.
fn is_well(replica: &Reply) -> bool {
    let words: Vec<String> =
        replica.list().unwrap_or_default().iter().filter_map(|word| word.text().ok()).collect();
    let has = |name: &str, value: &str| words.windows(2).any(|it| it[0] == name && it[1] == value);
    has("flags", "slave") && has("master-link-status", "ok")
}
