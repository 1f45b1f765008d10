//! What a start-up check finds out about a server, turned into what locks there can be trusted to do.

use std::fmt;
use std::time::Duration;

use tenure_core::{Error, Guarantees, Liveness, Result, TokenDurability};

/// Servers tell their own age in whole seconds.
const AGE_ROUNDING: Duration = Duration::from_secs(1);

/// What a server says of itself, as far as this user may ask. The default is a server of which nothing is known, and
/// is trusted least.
///
/// ```
/// use std::time::Duration;
///
/// use tenure_kit::server_facts::{EvictionPolicy, Persistence, ServerFacts};
///
/// let facts = ServerFacts { disk: Persistence::Through, full: EvictionPolicy::Refuses, ..ServerFacts::default() };
/// let guarantees = facts.profile("example", false);
/// assert!(guarantees.survives.store_crash && guarantees.survives.full_memory);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Its version.
    pub version: Option<Version>,
    /// How long ago it started.
    pub age: Option<Duration>,
    /// It follows another server, and keeps no locks itself.
    pub is_replica: bool,
    /// It has begun, and answers nothing about its data yet.
    pub is_loading: bool,
    /// Whether every write is on disk before it is answered.
    pub disk: Persistence,
    /// What it does when its memory is full.
    pub full: EvictionPolicy,
}

/// Whether every write is on disk before it is answered, the worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Persistence {
    /// It is not.
    #[default]
    Behind,
    /// It is, but not always.
    BehindAtTimes,
    /// It may be, and this user may not ask.
    Untold,
    /// It is.
    Through,
}

/// What a server does when its memory is full, the worst first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionPolicy {
    /// This user may not ask.
    #[default]
    Untold,
    /// It throws out locks, as this setting says.
    Forgets(String),
    /// It refuses what is new.
    Refuses,
}

/// The two numbers of a version that matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

/// What an engine asks of its servers, and what their operators can do. Each is a part of a sentence.
#[derive(Clone, Copy, Debug)]
pub struct Product {
    /// What the server is called: `Redis`.
    pub name: &'static str,
    /// The first version that will do.
    pub since: Version,
    /// What Tenure needs: `Redis 6.2 or later, or Valkey`.
    pub needs: &'static str,
    /// What to allow, so that the server tells how it is set up: `INFO and CONFIG GET`.
    pub to_tell: &'static str,
    /// What to allow, so that the server tells when it writes to disk: `CONFIG GET`.
    pub to_tell_of_disk: &'static str,
    /// When the server does not wait for its disk, and what to set: `while …: set …`.
    pub behind_at_times: &'static str,
    /// What to set, so that a full memory throws out no locks.
    pub to_refuse: &'static str,
}

/// Who said that the locks are kept by this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// The URL. What can stand there instead, where the server is a replica, is a part of a sentence.
    Url(&'static str),
    /// Other servers, which may change their minds.
    Servers,
}

impl ServerFacts {
    /// What several servers that share the lines can be trusted to do: what the worst of them can. Where there is
    /// none, nothing is known.
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
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

    /// Refuses a server that cannot keep locks at all. `name` is how an error may name it.
    pub fn fit(&self, name: &str, product: &Product, named_by: NamedBy) -> Result<()> {
        if let Some(version) = self.version.filter(|version| *version < product.since) {
            let Product { name: product, needs, .. } = product;
            return Err(Error::rejected(format!(
                "the server {name} is {product} {version}: Tenure needs {needs}"
            )));
        }
        match named_by {
            _ if self.is_loading => {
                Err(Error::unavailable(format!("the server {name} is still loading its data")))
            }
            NamedBy::Url(instead) if self.is_replica => Err(Error::invalid(format!(
                "the server {name} is a replica, and locks are kept by the master: {instead}"
            ))),
            NamedBy::Servers if self.is_replica => Err(Error::unavailable(format!(
                "a server that was named as the master of {name} is a replica"
            ))),
            _ => Ok(()),
        }
    }

    /// For how long the server may still have forgotten locks that somebody believes in, whose lives are at most
    /// `ttl_max`. It told its age `since` this long.
    pub fn is_young_for(&self, ttl_max: Duration, since: Duration) -> Option<Duration> {
        if self.disk == Persistence::Through {
            return None;
        }
        let age = self.age.unwrap_or(Duration::ZERO) + since;
        let left = (ttl_max + AGE_ROUNDING).saturating_sub(age);
        (!left.is_zero()).then_some(left)
    }

    /// The profile of an engine of this name, that keeps leases there and tells tickets when they are served.
    /// `refuses_young`: it gives no locks while the server [is young](Self::is_young_for).
    pub fn profile(&self, engine: &'static str, refuses_young: bool) -> Guarantees {
        let mut profile = Guarantees::new(engine, Liveness::Lease);
        profile.fair = true;
        profile.push = true;
        profile.fencing = TokenDurability::Volatile;
        profile.survives.holder_crash = true;
        profile.survives.holder_pause = true;
        profile.survives.store_crash = self.disk == Persistence::Through || refuses_young;
        profile.survives.full_memory = self.full == EvictionPolicy::Refuses;
        profile
    }

    /// What the server's operator should know, a sentence each. `name` is how a sentence may name it.
    pub fn warnings(&self, name: &str, product: &Product) -> Vec<String> {
        let full = match &self.full {
            EvictionPolicy::Refuses => None,
            EvictionPolicy::Untold => Some(format!(
                "the server {name} does not tell this user how it is set up, so it is taken for one that keeps locks badly: allow {}",
                product.to_tell
            )),
            EvictionPolicy::Forgets(setting) => Some(format!(
                "the server {name} throws out locks when its memory is full ({setting}): {}, or keep locks on a server of their own",
                product.to_refuse
            )),
        };
        let disk = match self.disk {
            Persistence::Behind | Persistence::Through => None,
            Persistence::BehindAtTimes => Some(format!(
                "the server {name} does not wait for its disk {}",
                product.behind_at_times
            )),
            Persistence::Untold => Some(format!(
                "whether the server {name} has every write on disk before it answers could not be checked, so it is taken for one that has not: allow {} to check it",
                product.to_tell_of_disk
            )),
        };
        full.into_iter().chain(disk).collect()
    }
}

impl Version {
    /// Reads `7.0.15` or `16.4`.
    pub fn read(text: &str) -> Option<Self> {
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

    const PRODUCT: Product = Product {
        name: "Example",
        since: Version(6, 2),
        needs: "Example 6.2 or later",
        to_tell: "ASKING",
        to_tell_of_disk: "ASKING FOR SETTINGS",
        behind_at_times: "at night: set it to wait",
        to_refuse: "set it to refuse",
    };

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
        assert!(good().fit("h", &PRODUCT, NamedBy::Url("")).is_ok());
        assert!(good().warnings("h", &PRODUCT).is_empty());
        let profile = good().profile("example", false);
        assert!(guarantees.survives.store_crash && guarantees.survives.full_memory);
        let unknown = ServerFacts::worst([]);
        let profile = unknown.profile("example", false);
        assert!(!profile.survives.store_crash && !profile.survives.full_memory);
        assert_eq!(unknown.warnings("h", &PRODUCT).len(), 1);
    }

    #[test]
    fn each_finding_has_a_warning_that_names_the_server_and_the_way_out() {
        for (findings, way_out) in [
            (ServerFacts { full: EvictionPolicy::Untold, ..good() }, "allow ASKING"),
            (
                ServerFacts { full: EvictionPolicy::Forgets("lru".into()), ..good() },
                "(lru): set it to refuse",
            ),
            (ServerFacts { disk: Persistence::Untold, ..good() }, "allow ASKING FOR SETTINGS"),
            (
                ServerFacts { disk: Persistence::BehindAtTimes, ..good() },
                "at night: set it to wait",
            ),
        ] {
            let warnings = findings.warnings("h", &PRODUCT);
            let [warning] = &warnings[..] else { panic!("{warnings:?}") };
            assert!(warning.contains("server h ") && warning.contains(way_out), "{warning}");
        }
    }

    #[test]
    fn a_server_that_cannot_keep_locks_is_refused() {
        let (by_url, by_servers) = (NamedBy::Url("name that"), NamedBy::Servers);
        let (old, loading, replica) = (
            ServerFacts { version: Version::read("6.0.9"), ..good() },
            ServerFacts { is_loading: true, ..good() },
            ServerFacts { is_replica: true, ..good() },
        );
        for (findings, named_by, kind, part) in [
            (&old, by_url, ErrorKind::Rejected, "is Example 6.0: Tenure needs Example 6.2"),
            (&loading, by_url, ErrorKind::Unavailable, "still loading"),
            (&replica, by_url, ErrorKind::Invalid, "name that"),
            (&replica, by_servers, ErrorKind::Unavailable, "named as the master of h"),
        ] {
            let error = findings.fit("h", &PRODUCT, named_by).unwrap_err();
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
    fn a_young_server_is_young_until_what_it_may_have_forgotten_is_over() {
        let (second, ttl_max) = (Duration::from_secs(1), Duration::from_secs(20));
        let forgetful = ServerFacts { disk: Persistence::Behind, ..good() };
        assert_eq!(forgetful.is_young_for(ttl_max, second), Some(8 * second));
        assert_eq!(forgetful.is_young_for(ttl_max, 9 * second), None);
        assert_eq!(good().is_young_for(ttl_max, second), None);
    }
}
