//! A cluster shares out the slots of keys among its masters.

use super::masters::addresses;
use super::{Relocation, Reply, Server, Setup};
use crate::patience::until;
use crate::{Result, Store};

/// How many masters there are.
const MASTERS: usize = 3;
/// How many slots there are, in every cluster.
const SLOTS: usize = 16_384;

/// Three masters, each with a third of the slots.
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

    /// Starts three masters with so many replicas each.
    pub fn with_replicas(replicas: usize) -> Result<Self> {
        Self::of(&Setup::new(), replicas)
    }

    /// Starts three masters of one kind, with so many replicas each.
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

    /// `redis+cluster://127.0.0.1:a,127.0.0.1:b,127.0.0.1:c`: the masters of the beginning.
    pub fn url(&self) -> String {
        let masters = self.first_masters();
        format!("redis+cluster://{}{}", super::masters::login(masters), addresses(masters))
    }

    /// Every node: first those that were masters at the beginning, then their replicas in turn.
    pub fn nodes(&self) -> &[Server] {
        &self.nodes
    }

    /// The slot of a key.
    pub fn slot_of(&self, key: &str) -> Result<u16> {
        let slot = self.any(|node| node.command(&["CLUSTER", "KEYSLOT", key])?.integer())?;
        u16::try_from(slot).map_err(|_| format!("{slot} is no slot."))
    }

    /// The master that has a slot now, as the first node that answers says.
    pub fn owner_of(&self, slot: u16) -> Result<&Server> {
        self.any(|node| {
            let share = shares(node)?.into_iter().find(|it| it.has(slot));
            let share = share.ok_or_else(|| format!("Nobody has slot {slot}."))?;
            self.at_port(share.ports[0])
        })
    }

    /// Begins to move a slot to another master. From now on, its keys may be at either.
    pub fn relocate<'a>(&'a self, slot: u16, to: &'a Server) -> Result<Relocation<'a>> {
        Relocation::begin(self, slot, to)
    }

    /// Waits until each node that runs takes this one for the owner of the slot.
    pub fn until_owned(&self, slot: u16, owner: &Server) -> Result<()> {
        let mut running = self.nodes.iter().filter(|node| node.pid().is_ok());
        running.try_for_each(|node| until(|| agrees(node, slot, owner.port())))
    }

    /// Waits until another master has the slot, in the eyes of each node that runs.
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
        node.ok_or_else(|| format!("The nodes name a stranger at port {port}."))
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

    /// Gives each master its third, and each node an age of its own: who is older is believed.
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

    /// Every node is told of every other: gossip alone would take its time.
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
            // It can follow as soon as it has heard of its master.
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

/// Slots in a row, and who has them: the port of the master, then those of its replicas.
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

/// What a node calls itself.
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
    if agrees { Ok(()) } else { Err(format!("Port {} has another owner in mind.", node.port())) }
}
