//! Sentinels watch over a master and its replicas, and name another master when it is gone.

use super::masters::addresses;
use super::{Reply, Server, Setup};
use crate::patience::until;
use crate::{Result, Store};

/// What the sentinels call the set; it is in the URL.
const NAME: &str = "tenure";
/// How many there are.
const SENTINELS: usize = 3;
/// How many must agree that a master is gone.
const QUORUM: &str = "2";
/// How long a master may be silent.
const DOWN_AFTER_MS: &str = "1000";
/// When a fail-over that does not get on is tried again.
const FAILOVER_TIMEOUT_MS: &str = "3000";
/// How often sentinels ask, and tell of themselves. Left to themselves, they need seconds to meet.
const PERIOD_MS: &str = "100";

/// Three sentinels over a master and its replicas.
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<Server>,
    servers: Vec<Server>,
}

impl Sentinels {
    /// Starts them over a plain master with one replica.
    pub fn start() -> Result<Self> {
        Self::over(&Setup::new(), 1)
    }

    /// Starts them over servers of one kind: a master and so many replicas.
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

    /// The servers that they watch; the first was the master at the beginning.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Who is the master now, as the first sentinel that answers says.
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

    /// Waits until all sentinels that run name another master, and it takes itself for one.
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
                return Err("The sentinels keep to the old master.".into());
            }
            let role = first.command(&["ROLE"])?.at(0)?.text()?;
            if role == "master" { Ok(first) } else { Err(format!("The next master is a {role}.")) }
        })
    }

    fn master_according_to(&self, sentinel: &Server) -> Result<&Server> {
        let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        let port = address.at(1)?.integer()?;
        let server = self.servers.iter().find(|it| i64::from(it.port()) == port);
        server.ok_or_else(|| format!("The sentinels name a stranger at port {port}."))
    }

    /// Whether it could lead a fail-over: it knows the others, and every replica.
    fn is_known_to(&self, sentinel: &Server) -> Result<()> {
        let quorum = sentinel.command(&["SENTINEL", "CKQUORUM", NAME])?.text()?;
        if !quorum.starts_with(&format!("OK {SENTINELS} ")) {
            return Err(format!("A sentinel says: {quorum}."));
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
