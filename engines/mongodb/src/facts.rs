//! Facts about the servers, and what follows from them for the locks.

use std::time::Duration;

use mongodb::bson::{Bson, Document, rawdoc};
use tenure_core::{Error, EventDelivery, Guarantees, Liveness, Reason, Result, TokenDurability};

use crate::answer::whole;
use crate::command::CommandSender;
use crate::opening;
use crate::settings::Settings;

/// First version of the wire protocol that has pipelines with `$$NOW`, and projections that
/// compute: MongoDB 4.4.
const WIRE_VERSION_MIN: i64 = 9;

/// Facts about the servers and the collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeploymentFacts {
    pub(crate) topology: Topology,
    /// Members of a set, without those that keep no data.
    members: usize,
    arbiters: usize,
    /// Reason for which idle records are not reaped.
    unreaped: Option<String>,
    /// Whether the user may not open a change stream.
    is_deaf: bool,
    /// Warning of the collection.
    collection: Option<String>,
}

/// How the servers keep the collection together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Set,
    Sharded,
    Alone,
}

impl DeploymentFacts {
    /// Asks the servers, and refuses a collection that cannot keep locks. If the collection has
    /// Tenure's own records, it has the servers reap idle ones.
    pub(crate) async fn ask(commands: &CommandSender, has_records: bool) -> Result<Self> {
        let admin = commands.client.database("admin");
        let hello = commands.ask(&admin, rawdoc! { "hello": 1 }).await?;
        let mut facts = Self::read(&hello, &commands.servers.label)?;
        facts.collection = opening::check(commands).await?;
        facts.is_deaf = is_deaf(commands).await;
        if has_records {
            facts.unreaped = match commands.reap().await {
                Ok(()) => None,
                Err(error) if error.reason() == Some(Reason::LoginRequired) => return Err(error),
                Err(error) => Some(error.to_string()),
            };
        }
        Ok(facts)
    }

    fn read(hello: &Document, servers: &str) -> Result<Self> {
        let version = whole(hello, "maxWireVersion").unwrap_or(0);
        if version < WIRE_VERSION_MIN {
            return Err(Error::rejected(format!(
                "{servers} is older than MongoDB 4.4, which Tenure needs"
            )));
        }
        let count = |field: &str| hello.get_array(field).map_or(0, Vec::len);
        let topology = match (hello.get_str("msg"), hello.get_str("setName")) {
            (Ok("isdbgrid"), _) => Topology::Sharded,
            (_, Ok(_)) => Topology::Set,
            _ => Topology::Alone,
        };
        let takes_writes = hello.get_bool("isWritablePrimary").unwrap_or(false);
        if topology == Topology::Set && !takes_writes {
            return Err(Error::unavailable(format!(
                "{servers} is not the primary, and locks are kept by the primary: name the set with `replicaSet`, without `directConnection`"
            ))
            .with_reason(Reason::NoPrimary));
        }
        Ok(Self {
            topology,
            members: count("hosts") + count("passives"),
            arbiters: count("arbiters"),
            unreaped: None,
            is_deaf: false,
            collection: None,
        })
    }

    /// Returns whether the engine can notify waiting tickets.
    pub(crate) fn can_push(&self) -> bool {
        self.topology != Topology::Alone && !self.is_deaf
    }

    pub(crate) fn profile(&self, settings: &Settings) -> Guarantees {
        let mut profile = Guarantees::new("mongodb", Liveness::Lease);
        profile.fair = true;
        profile.push = self.can_push();
        if self.can_push() {
            profile.events = EventDelivery::Every;
        }
        profile.fencing = TokenDurability::Volatile;
        profile.survives.holder_crash = true;
        profile.survives.holder_pause = true;
        // A write counts only once it is in the journal of a majority.
        profile.survives.store_crash = true;
        // A majority of two members is both.
        profile.survives.failover = self.topology == Topology::Sharded || self.members > 2;
        profile.survives.full_memory = true;
        profile.rounding = Duration::from_millis(1);
        profile.answers_within = settings.timeout;
        profile.warnings = self.warnings();
        profile
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        match self.topology {
            Topology::Alone => warnings.push(
                "this MongoDB is one server without a replica set: waiting tickets are not notified when they are served, and poll instead, finally once a second; start it with --replSet, one member is enough".to_owned(),
            ),
            Topology::Sharded => warnings.extend([
                "on a sharded cluster a hand-over is reported only once the quietest shard has written, which is every ten seconds by default: set periodicNoopIntervalSecs to 1".to_owned(),
                "on a sharded cluster each router ends locks and numbers them by its own clock: have NTP keep the routers' clocks together, or give locks a margin".to_owned(),
            ]),
            Topology::Set if self.arbiters > 0 => warnings.push(
                "this replica set has an arbiter: when one of its other members is gone, no majority has a write on disk, and nothing is locked until it is back; replace the arbiter by a member with data".to_owned(),
            ),
            Topology::Set if self.members == 1 => warnings.push(
                "this replica set has one member: while that is gone, nothing is locked".to_owned(),
            ),
            Topology::Set if self.members == 2 => warnings.push(
                "this replica set has two members: while either is gone, no majority takes writes, and nothing is locked; add a third member with data".to_owned(),
            ),
            Topology::Set => {}
        }
        warnings.extend(self.collection.clone());
        if self.is_deaf {
            warnings.push("this user may not listen to changes, so waiting tickets poll, finally once a second: allow `changeStream` and `find` on the collection".to_owned());
        }
        if let Some(why) = &self.unreaped {
            warnings.push(format!("idle records are kept for ever, because their index cannot be made: allow `createIndex` on the collection ({why})"));
        }
        warnings
    }
}

/// Returns whether this user is known not to be allowed to open a change stream.
async fn is_deaf(commands: &CommandSender) -> bool {
    let admin = commands.client.database("admin");
    let asked =
        commands.ask(&admin, rawdoc! { "connectionStatus": 1, "showPrivileges": true }).await;
    let Ok(status) = asked else { return false };
    let Ok(status) = status.get_document("authInfo") else { return false };
    if status.get_array("authenticatedUsers").is_ok_and(Vec::is_empty) {
        return false;
    }
    let Ok(privileges) = status.get_array("authenticatedUserPrivileges") else { return false };
    let (database, collection) = (commands.database.name(), commands.collection.as_str());
    let allows = |privilege: &Bson| {
        let privilege = privilege.as_document()?;
        let resource = privilege.get_document("resource").ok()?;
        let fits = |field: &str, name: &str| {
            resource.get_str(field).is_ok_and(|one| one.is_empty() || one == name)
        };
        let is_meant = resource.get_bool("anyResource").unwrap_or(false)
            || fits("db", database) && fits("collection", collection);
        let actions = privilege.get_array("actions").ok()?;
        let action = |action: &Bson| matches!(action.as_str(), Some("changeStream" | "anyAction"));
        Some(is_meant && actions.iter().any(action))
    };
    !privileges.iter().any(|privilege| allows(privilege).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    fn facts(more: Document) -> DeploymentFacts {
        let mut hello = doc! { "maxWireVersion": 17, "isWritablePrimary": true };
        hello.extend(more);
        DeploymentFacts::read(&hello, "a").unwrap()
    }

    #[test]
    fn a_set_outlives_a_member_if_the_others_are_a_majority() {
        for (hosts, survives, warning) in [
            (&["a"][..], false, Some("one member")),
            (&["a", "b"], false, Some("two members")),
            (&["a", "b", "c"], true, None),
        ] {
            let facts = facts(doc! { "setName": "rs0", "hosts": hosts.to_vec() });
            let profile = facts.profile(&Settings::new());
            assert_eq!(profile.survives.failover, survives, "{hosts:?}");
            let warnings = profile.warnings.join("\n");
            assert!(warning.map_or(warnings.is_empty(), |it| warnings.contains(it)), "{warnings}");
        }
        let arbiter = doc! { "setName": "rs0", "hosts": ["a", "b"], "arbiters": ["c"] };
        let profile = facts(arbiter).profile(&Settings::new());
        assert!(!profile.survives.failover && profile.warnings[0].contains("arbiter"));
    }

    #[test]
    fn the_clocks_of_routers_are_warned_of() {
        let profile = facts(doc! { "msg": "isdbgrid" }).profile(&Settings::new());
        let warnings = profile.warnings.join("\n");
        assert!(warnings.contains("each router ends locks and numbers them by its own clock"));
    }
}
