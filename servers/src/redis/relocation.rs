//! Moves one slot of a cluster step by step, so that a test can check the state between the steps.

use super::cluster::id;
use super::{Cluster, Reply, Server};
use crate::Result;

/// Number of keys in one call of `MIGRATE`.
const KEYS_AT_ONCE: &str = "100";
/// Time limit of one such call.
const MOVED_MAX_MS: &str = "5000";

/// A slot that is being moved.
///
/// * At first the old owner answers for keys that it has, and with `ASK` for other keys.
/// * After the keys were [moved](Self::carry), the old owner answers with `ASK` for all keys.
/// * After the [end](Self::finish), all nodes but the new owner answer with `MOVED`.
///
/// Dropping it before the end leaves the slot between its owners.
#[derive(Debug)]
#[must_use = "a slot stays on its way until the relocation is finished"]
pub struct Relocation<'a> {
    cluster: &'a Cluster,
    slot: String,
    from: &'a Server,
    to: &'a Server,
}

impl<'a> Relocation<'a> {
    pub(super) fn begin(cluster: &'a Cluster, slot: u16, to: &'a Server) -> Result<Self> {
        let from = cluster.owner_of(slot)?;
        if from.port() == to.port() {
            return Err(format!("Slot {slot} is at port {} already.", to.port()));
        }
        let begun = Self { cluster, slot: slot.to_string(), from, to };
        to.command(&["CLUSTER", "SETSLOT", &begun.slot, "IMPORTING", &id(from)?])?;
        from.command(&["CLUSTER", "SETSLOT", &begun.slot, "MIGRATING", &id(to)?])?;
        Ok(begun)
    }

    /// The owner of the slot until the end.
    pub fn from(&self) -> &'a Server {
        self.from
    }

    /// The owner of the slot after the end.
    pub fn to(&self) -> &'a Server {
        self.to
    }

    /// Moves all keys of the slot, and returns their number.
    pub fn carry(&self) -> Result<usize> {
        let (port, password) = (self.to.port().to_string(), self.to.setup().password.as_deref());
        let mut carried = 0;
        loop {
            let keys =
                self.from.command(&["CLUSTER", "GETKEYSINSLOT", &self.slot, KEYS_AT_ONCE])?;
            if keys.list()?.is_empty() {
                return Ok(carried);
            }
            let head = ["MIGRATE", "127.0.0.1", &port, "", "0", MOVED_MAX_MS];
            let login = password.map(|password| ["AUTH", password]);
            let words = head.into_iter().chain(login.into_iter().flatten()).chain(["KEYS"]);
            let mut call: Vec<Vec<u8>> = words.map(Into::into).collect();
            for key in keys.list()? {
                match key {
                    Reply::Bytes(bytes) => call.push(bytes.clone()),
                    other => return Err(format!("{other:?} is no key.")),
                }
                carried += 1;
            }
            self.from.command(&call)?;
        }
    }

    /// Moves the remaining keys, and assigns the slot to the new owner.
    pub fn finish(self) -> Result<()> {
        self.carry()?;
        let owner = id(self.to)?;
        // The new owner first: without an owner, all nodes would refuse the slot.
        let others = self.cluster.nodes().iter().filter(|node| {
            ![self.from.port(), self.to.port()].contains(&node.port()) && node.pid().is_ok()
        });
        for node in [self.to, self.from].into_iter().chain(others) {
            let is_master = node.command(&["ROLE"])?.at(0)?.text()? == "master";
            if is_master {
                node.command(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &owner])?;
            }
        }
        let slot = self.slot.parse().map_err(|_| format!("{} is no slot.", self.slot))?;
        self.cluster.until_owned(slot, self.to)
    }
}
