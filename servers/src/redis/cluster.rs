//! A Cluster of three masters, each with a third of the slots.

use super::masters::addresses;
use super::{Relocation, Reply, Server, Setup};
use crate::patience::until;
use crate::{Result, Store};

/// Number of masters.
const MASTERS: usize = 3;
/// Number of slots of every cluster.
const SLOTS: usize = 16_384;

/// A cluster of three masters, each with a third of the slots.
#[derive(Debug)]
pub struct Cluster {
    /// The masters first, then the replicas.
    nodes: Vec<Server>,
}

impl Cluster {
    /// Starts three masters.
    pub fn start() -> Result<Self> {
        Self::of(&Setup::new(), 0)
    }

    /// Starts three masters with this number of replicas each.
    pub fn with_replicas(replicas: usize) -> Result<Self> {
        Self::of(&Setup::new(), replicas)
    }

    /// Starts three masters with this setup and this number of replicas each.
    pub fn of(setup: &Setup, replicas: usize) -> Result<Self> {
        let start = |_| setup.clone().cluster().start();
        let nodes = (0..MASTERS * (replicas + 1)).map(start).collect::<Result<_>>()?;
        let cluster = Self { nodes };
        cluster.share_out()?;
        cluster.meet()?;
        cluster.follow()?;
        for node in &cluster.nodes {
            until(|| cluster.is_settled_for(node, replicas))?;
        }
        Ok(cluster)
    }

    /// `redis+cluster://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c`: the masters at the start.
    pub fn url(&self) -> String {
        let masters = self.first_masters();
        format!("redis+cluster://{}{}", super::masters::login(masters), addresses(masters))
    }

    /// All nodes: first the masters at the start, then their replicas in turn.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// Returns the slot of a key.
    pub fn slot_of(&self, key: &str) -> Result<u16> {
        let slot = self.any(|node| node.command(&["CLUSTER", "KEYSLOT", key])?.integer())?;
        u16::try_from(slot).map_err(|_| format!("{slot} is no slot."))
    }

    /// Returns the master of a slot according to the first node that answers.
    pub fn owner_of(&self, slot: u16) -> Result<&Server> {
        self.any(|node| {
            let share = shares(node)?.into_iter().find(|it| it.has(slot));
            let share = share.ok_or_else(|| format!("No node has slot {slot}."))?;
            self.at_port(share.ports[0])
        })
    }

    /// Begins to move a slot to another master. From now on its keys may be on either master.
    pub fn relocate<'a>(&'a self, slot: u16, to: &'a Server) -> Result<Relocation<'a>> {
        Relocation::begin(self, slot, to)
    }

    /// Waits until all running nodes name this node as the owner of the slot.
    pub fn until_owned(&self, slot: u16, owner: &Server) -> Result<()> {
        let mut running = self.nodes.iter().filter(|node| node.pid().is_ok());
        running.try_for_each(|node| until(|| agrees(node, slot, owner.port())))
    }

    /// Waits until all running nodes name another owner of the slot.
    pub fn next_owner(&self, slot: u16, old: &Server) -> Result<&Server> {
        let next = until(|| {
            let owner = self.owner_of(slot)?;
            let is_next = owner.port() != old.port();
            if is_next { Ok(owner) } else { Err(format!("Slot {slot} has its old owner.")) }
        })?;
        self.until_owned(slot, next)?;
        Ok(next)
    }

    fn first_masters(&self) -> &[Server] {
        &self.nodes[..MASTERS]
    }

    fn at_port(&self, port: i64) -> Result<&Server> {
        let node = self.nodes.iter().find(|node| i64::from(node.port()) == port);
        node.ok_or_else(|| format!("The nodes name an unknown node at port {port}."))
    }

    fn any<'a, T>(&'a self, ask: impl Fn(&'a Server) -> Result<T>) -> Result<T> {
        let mut last = Err("There is no node.".into());
        for node in &self.nodes {
            last = ask(node);
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// Assigns a third of the slots to each master, and a configuration epoch of its own to each
    /// node.
    fn share_out(&self) -> Result<()> {
        for (age, node) in (1..).zip(&self.nodes) {
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &u64::to_string(&age)])?;
        }
        for (place, master) in self.first_masters().iter().enumerate() {
            let first = SLOTS * place / MASTERS;
            let last = SLOTS * (place + 1) / MASTERS - 1;
            let range = [first.to_string(), last.to_string()];
            master.command(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])?;
        }
        Ok(())
    }

    /// Introduces every node to every other node, because gossip alone would take seconds.
    fn meet(&self) -> Result<()> {
        for (place, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[..place] {
                let bus = other.cluster_port().ok_or("A node has no port for the others.")?;
                let (port, bus) = (other.port().to_string(), bus.to_string());
                node.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus])?;
            }
        }
        Ok(())
    }

    fn follow(&self) -> Result<()> {
        for (place, replica) in self.nodes.iter().enumerate().skip(MASTERS) {
            let master = id(&self.nodes[place % MASTERS])?;
            // A replica can follow its master once it knows it.
            until(|| replica.command(&["CLUSTER", "REPLICATE", &master]))?;
        }
        Ok(())
    }

    fn is_settled_for(&self, node: &Server, replicas: usize) -> Result<()> {
        let info = node.command(&["CLUSTER", "INFO"])?;
        for (name, value) in [
            ("cluster_state", "ok"),
            ("cluster_slots_ok", &SLOTS.to_string()),
            ("cluster_known_nodes", &self.nodes.len().to_string()),
        ] {
            let now = info.field(name)?;
            if now != value {
                return Err(format!("{name} is {now} at port {}.", node.port()));
            }
        }
        let shares = shares(node)?;
        let whole = |share: &Share| share.ports.len() == replicas + 1;
        if shares.len() != MASTERS || !shares.iter().all(whole) {
            return Err(format!("Port {} knows only these nodes: {shares:?}.", node.port()));
        }
        let follows = node.command(&["INFO", "replication"])?.field("master_link_status");
        if follows.is_ok_and(|link| link != "up") {
            return Err(format!("Port {} does not follow its master yet.", node.port()));
        }
        shares.iter().try_for_each(|share| self.at_port(share.ports[0]).map(drop))
    }
}

impl Store for Cluster {
    fn url(&self) -> String {
        Self::url(self)
    }
}

/// A range of slots with the ports of its master and its replicas.
#[derive(Debug)]
struct Share {
    first: i64,
    last: i64,
    ports: Vec<i64>,
}

impl Share {
    fn has(&self, slot: u16) -> bool {
        (self.first..=self.last).contains(&i64::from(slot))
    }
}

/// Returns the id of a node.
pub(super) fn id(node: &Server) -> Result<String> {
    node.command(&["CLUSTER", "MYID"])?.text()
}

fn shares(node: &Server) -> Result<Vec<Share>> {
    let slots = node.command(&["CLUSTER", "SLOTS"])?;
    let read = |share: &Reply| {
        let ports = share.list()?.iter().skip(2).map(|node| node.at(1)?.integer());
        let (first, last) = (share.at(0)?.integer()?, share.at(1)?.integer()?);
        Ok(Share { first, last, ports: ports.collect::<Result<_>>()? })
    };
    slots.list()?.iter().map(read).collect()
}

fn agrees(node: &Server, slot: u16, owner: u16) -> Result<()> {
    let agrees = shares(node)?.iter().any(|it| it.has(slot) && it.ports[0] == i64::from(owner));
    if agrees { Ok(()) } else { Err(format!("Port {} names another owner.", node.port())) }
}
