//! The facts that a server reports about itself, and the guarantees of the locks that it keeps.

use std::fmt;
use std::time::Duration;

use tenure_core::{Error, Guarantees, Liveness, Result, TokenDurability};

/// The first version that Tenure supports.
const VERSION_MIN: Version = Version(6, 2);
/// Servers report their uptime in whole seconds.
const AGE_ROUNDING: Duration = Duration::from_secs(1);

/// The facts that a server reported to this user. The default is a server of which nothing is
/// known; it is trusted least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    pub(crate) version: Option<Version>,
    /// The uptime.
    pub(crate) age: Option<Duration>,
    /// Whether the server follows a master. Such a server keeps no locks itself.
    pub(crate) is_replica: bool,
    /// Whether the server is still reading its data from disk.
    pub(crate) is_loading: bool,
    pub(crate) disk: Persistence,
    pub(crate) full: EvictionPolicy,
}

/// Whether the server writes to disk before it answers. Worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Persistence {
    /// The disk is behind the answers.
    #[default]
    Behind,
    /// The disk is behind while the server rewrites its log.
    BehindAtTimes,
    /// Unknown: the user may not ask for it.
    Untold,
    /// Every write is on disk before it is answered.
    Through,
}

/// The behaviour of the server when its memory is full. Worst first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EvictionPolicy {
    /// Unknown: the user may not ask for it.
    #[default]
    Untold,
    /// The server evicts locks because of this setting.
    Forgets(String),
    /// The server refuses new data.
    Refuses,
}

/// Major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

/// How the client found the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// The URL names the server.
    Url,
    /// Other servers name it as the master. They may change their minds.
    Servers,
}

impl ServerFacts {
    /// Returns what several servers that share the lines guarantee together: the worst of each
    /// fact. Returns the default if there is no server.
    pub(crate) fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter()
            .reduce(|one, other| Self {
                version: one.version.min(other.version),
                age: one.age.min(other.age),
                is_replica: one.is_replica || other.is_replica,
                is_loading: one.is_loading || other.is_loading,
                disk: one.disk.min(other.disk),
                full: one.full.min(other.full),
            })
            .unwrap_or_default()
    }

    /// Refuses a server that cannot keep locks. Error messages call the server `name`.
    pub(crate) fn fit(&self, name: &str, named_by: NamedBy) -> Result<()> {
        if let Some(version) = self.version.filter(|version| *version < VERSION_MIN) {
            return Err(Error::rejected(format!(
                "the server {name} is Redis {version}: Tenure needs Redis {VERSION_MIN} or later, or Valkey"
            )));
        }
        match named_by {
            _ if self.is_loading => {
                Err(Error::unavailable(format!("the server {name} is still loading its data")))
            }
            NamedBy::Url if self.is_replica => Err(Error::invalid(format!(
                "the server {name} is a replica, and the master keeps the locks: name the master or the sentinels in the URL"
            ))),
            NamedBy::Servers if self.is_replica => Err(Error::unavailable(format!(
                "the server that was named as the master of {name} is a replica"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the remaining time in which a server that has just started may have lost leases that
    /// clients still trust. Leases last `ttl_max` at most; the server reported its uptime `since`
    /// ago.
    pub(crate) fn refused_for(&self, ttl_max: Duration, since: Duration) -> Option<Duration> {
        if self.disk == Persistence::Through {
            return None;
        }
        let age = self.age.unwrap_or(Duration::ZERO) + since;
        let left = (ttl_max + AGE_ROUNDING).saturating_sub(age);
        (!left.is_zero()).then_some(left)
    }

    /// Returns the guarantees of an engine that keeps its leases on this server and notifies a
    /// ticket that is served. `refuses_after_restart`: the engine gives no locks while the server
    /// [may have lost leases](Self::refused_for).
    pub(crate) fn profile(&self, engine: &'static str, refuses_after_restart: bool) -> Guarantees {
        let mut profile = Guarantees::new(engine, Liveness::Lease);
        profile.fair = true;
        profile.push = true;
        profile.fencing = TokenDurability::Volatile;
        profile.survives.holder_crash = true;
        profile.survives.holder_pause = true;
        profile.survives.store_crash = self.disk == Persistence::Through || refuses_after_restart;
        profile.survives.full_memory = self.full == EvictionPolicy::Refuses;
        profile
    }

    /// Returns warnings for the operator. Each is one sentence that calls the server `name`.
    pub(crate) fn warnings(&self, name: &str) -> Vec<String> {
        let full = match &self.full {
            EvictionPolicy::Refuses => None,
            EvictionPolicy::Untold => Some(format!(
                "the server {name} does not let this user read its settings, so Tenure assumes that it may evict locks and lose them in a crash: allow INFO and CONFIG GET"
            )),
            EvictionPolicy::Forgets(setting) => Some(format!(
                "the server {name} evicts locks when its memory is full ({setting}): set it to noeviction, or keep locks on a server of their own"
            )),
        };
        let disk = match self.disk {
            Persistence::Behind | Persistence::Through => None,
            Persistence::BehindAtTimes => Some(format!(
                "the server {name} does not wait for its disk while it rewrites its log, and a crash may then lose locks: set no-appendfsync-on-rewrite to no"
            )),
            Persistence::Untold => Some(format!(
                "whether the server {name} writes to disk before it answers could not be checked, so Tenure assumes that it does not: allow CONFIG GET"
            )),
        };
        full.into_iter().chain(disk).collect()
    }
}

impl Version {
    /// Reads `7.0.15` or `16.4`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        Some(Self(parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use tenure_core::ErrorKind;

    use super::*;

    fn good() -> ServerFacts {
        ServerFacts {
            version: Version::read("7.0.15"),
            age: Some(Duration::from_secs(12)),
            disk: Persistence::Through,
            full: EvictionPolicy::Refuses,
            ..ServerFacts::default()
        }
    }

    #[test]
    fn a_good_server_is_trusted_and_an_unknown_one_is_not() {
        assert!(good().fit("h", NamedBy::Url).is_ok());
        assert!(good().warnings("h").is_empty());
        let profile = good().profile("redis", false);
        assert!(profile.survives.store_crash && profile.survives.full_memory);
        let unknown = ServerFacts::worst([]);
        let profile = unknown.profile("redis", false);
        assert!(!profile.survives.store_crash && !profile.survives.full_memory);
        assert_eq!(unknown.warnings("h").len(), 1);
    }

    #[test]
    fn each_fact_has_a_warning_that_names_the_server_and_the_remedy() {
        for (facts, remedy) in [
            (ServerFacts { full: EvictionPolicy::Untold, ..good() }, "allow INFO and CONFIG GET"),
            (
                ServerFacts { full: EvictionPolicy::Forgets("lru".into()), ..good() },
                "(lru): set it to noeviction",
            ),
            (ServerFacts { disk: Persistence::Untold, ..good() }, "allow CONFIG GET"),
            (
                ServerFacts { disk: Persistence::BehindAtTimes, ..good() },
                "set no-appendfsync-on-rewrite to no",
            ),
        ] {
            let warnings = facts.warnings("h");
            let [warning] = &warnings[..] else { panic!("{warnings:?}") };
            assert!(warning.contains("server h ") && warning.contains(remedy), "{warning}");
        }
    }

    #[test]
    fn a_server_that_cannot_keep_locks_is_refused() {
        let (by_url, by_servers) = (NamedBy::Url, NamedBy::Servers);
        let (old, loading, replica) = (
            ServerFacts { version: Version::read("6.0.9"), ..good() },
            ServerFacts { is_loading: true, ..good() },
            ServerFacts { is_replica: true, ..good() },
        );
        for (facts, named_by, kind, part) in [
            (&old, by_url, ErrorKind::Rejected, "is Redis 6.0: Tenure needs Redis 6.2"),
            (&loading, by_url, ErrorKind::Unavailable, "still loading"),
            (&replica, by_url, ErrorKind::Invalid, "name the master"),
            (&replica, by_servers, ErrorKind::Unavailable, "named as the master of h"),
        ] {
            let error = facts.fit("h", named_by).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn several_servers_are_as_good_as_the_worst() {
        let bad = ServerFacts {
            disk: Persistence::Untold,
            full: EvictionPolicy::Forgets("lru".into()),
            ..good()
        };
        assert_eq!(ServerFacts::worst([good(), good()]), good());
        for worst in
            [ServerFacts::worst([good(), bad.clone()]), ServerFacts::worst([bad.clone(), good()])]
        {
            assert_eq!(worst, bad);
        }
    }

    #[test]
    fn a_server_is_young_until_every_lease_that_it_may_have_lost_has_expired() {
        let (second, ttl_max) = (Duration::from_secs(1), Duration::from_secs(20));
        let forgetful = ServerFacts { disk: Persistence::Behind, ..good() };
        assert_eq!(forgetful.refused_for(ttl_max, second), Some(8 * second));
        assert_eq!(forgetful.refused_for(ttl_max, 9 * second), None);
        assert_eq!(good().refused_for(ttl_max, second), None);
    }
}
