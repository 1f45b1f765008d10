//! What the servers say of themselves, and what follows for the locks they keep.

use std::time::Duration;

use mongodb::bson::{Bson, Document, rawdoc};
use tenure_core::{Error, Fencing, Liveness, Profile, Result, Sight};

use crate::answer::whole;
use crate::call::Calls;
use crate::clocks;
use crate::settings::Settings;
use crate::trouble;

/// The first version of the protocol that knows pipelines with `$$NOW`, and projections that compute: MongoDB 4.4.
const WIRE_VERSION_MIN: i64 = 9;

/// What is known of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) topology: Topology,
    /// Members of a set, without those that keep no data.
    members: usize,
    arbiters: usize,
    /// Why idle records are not reaped.
    unreaped: Option<String>,
    /// The user may not listen to changes.
    is_deaf: bool,
    /// What is said of the members' clocks.
    clocks: Option<String>,
}

/// How the servers keep the collection together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Set,
    Sharded,
    Alone,
}

impl Facts {
    /// Asks the servers, and has them reap idle records where these are Tenure's own.
    pub(crate) async fn ask(calls: &Calls, reaps: bool) -> Result<Self> {
        let admin = calls.client.database("admin");
        let hello = calls.ask(&admin, rawdoc! { "hello": 1 }).await?;
        let mut facts = Self::read(&hello, &calls.name.servers)?;
        facts.is_deaf = is_deaf(calls).await;
        facts.clocks = clocks::warning(calls, &hello).await;
        if reaps {
            facts.unreaped = match calls.reap().await {
                Ok(()) => None,
                Err(error) if trouble::wants_user(&error) => return Err(error),
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
            )));
        }
        Ok(Self {
            topology,
            members: count("hosts") + count("passives"),
            arbiters: count("arbiters"),
            unreaped: None,
            is_deaf: false,
            clocks: None,
        })
    }

    /// Whether waiting tickets can be told.
    pub(crate) fn can_push(&self) -> bool {
        self.topology != Topology::Alone && !self.is_deaf
    }

    pub(crate) fn profile(&self, settings: &Settings) -> Profile {
        let mut profile = Profile::new("mongodb", Liveness::Lease);
        profile.fair = true;
        profile.push = self.can_push();
        if self.can_push() {
            profile.events = Sight::Every;
        }
        profile.fencing = Fencing::Volatile;
        profile.survives.holder_crash = true;
        profile.survives.holder_pause = true;
        // Every write is in the journal of a majority before it counts.
        profile.survives.store_crash = true;
        profile.survives.failover = self.topology == Topology::Sharded || self.members > 1;
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
                "this MongoDB is one server without a replica set: waiting tickets are not told when they are served, and look for themselves, at last once a second; start it with --replSet, one member is enough".to_owned(),
            ),
            Topology::Sharded => warnings.push(
                "on a sharded cluster a hand-over is told as late as the quietest shard writes, which is every ten seconds by default: set periodicNoopIntervalSecs to 1".to_owned(),
            ),
            Topology::Set if self.arbiters > 0 => warnings.push(
                "this replica set has an arbiter: when one of its other members is gone, no majority has a write on disk, and nothing is locked until it is back; replace the arbiter by a member with data".to_owned(),
            ),
            Topology::Set if self.members == 1 => warnings.push(
                "this replica set has one member: while that is gone, nothing is locked".to_owned(),
            ),
            Topology::Set => {}
        }
        warnings.extend(self.clocks.clone());
        if self.is_deaf {
            warnings.push("this user may not listen to changes, so waiting tickets look for themselves, at last once a second: allow `changeStream` and `find` on the collection".to_owned());
        }
        if let Some(why) = &self.unreaped {
            warnings.push(format!("idle records are kept for ever, because their index cannot be made: allow `createIndex` on the collection ({why})"));
        }
        warnings
    }
}

/// Whether this user is known not to be allowed to listen to changes.
async fn is_deaf(calls: &Calls) -> bool {
    let admin = calls.client.database("admin");
    let asked = calls.ask(&admin, rawdoc! { "connectionStatus": 1, "showPrivileges": true }).await;
    let Ok(status) = asked else { return false };
    let Ok(status) = status.get_document("authInfo") else { return false };
    if status.get_array("authenticatedUsers").is_ok_and(Vec::is_empty) {
        return false;
    }
    let Ok(privileges) = status.get_array("authenticatedUserPrivileges") else { return false };
    let (database, collection) = (calls.database.name(), calls.collection.as_str());
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
