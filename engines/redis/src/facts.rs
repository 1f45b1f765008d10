//! The facts that a server reports about itself, and the guarantees, refusals and warnings that
//! follow from them.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisResult, Value, cmd};
use tenure_core::{Error, Guarantees, Liveness, Result, TokenDurability};
use tenure_kit::secret::redact;

use crate::settings::{AfterRestart, DeploymentName, Settings};

/// The first version that Tenure supports.
const VERSION_MIN: Version = Version(6, 2);
/// Servers report their uptime in whole seconds.
const AGE_ROUNDING: Duration = Duration::from_secs(1);

/// The answers to INFO and CONFIG, as far as this user may ask. The default is a server of which
/// nothing is known; it is trusted least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerFacts {
    pub(crate) version: Option<Version>,
    /// The uptime.
    age: Option<Duration>,
    /// Whether the server follows a master. Such a server keeps no locks itself.
    is_replica: bool,
    /// Whether the server is still reading its data from disk.
    is_loading: bool,
    is_clustered: bool,
    is_sentinel: bool,
    replicas: u32,
    /// Whether every write is on disk before it is answered.
    writes_through: bool,
    eviction: EvictionPolicy,
}

/// The behaviour of the server when its memory is full. Worst first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionPolicy {
    /// Unknown: the user may not ask for it.
    #[default]
    Untold,
    /// The server evicts locks because of this policy.
    Evicts(String),
    /// The server refuses new data.
    Refuses,
}

/// Major and minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32);

impl ServerFacts {
    /// Returns the two commands that ask a server for its facts: INFO and CONFIG.
    pub(crate) fn questions() -> (Cmd, Cmd) {
        let mut config = cmd("CONFIG");
        // Redis 6.2 takes one name only, and both of these have it in them.
        config.arg("GET").arg("*appendfsync*");
        (cmd("INFO"), config)
    }

    /// Reads the answers to the [questions](Self::questions); each may have been denied.
    pub(crate) fn of(info: RedisResult<Value>, config: RedisResult<Value>) -> Self {
        let info = info.ok().and_then(|info| String::from_redis_value(info).ok());
        let config = config.ok().and_then(|config| FromRedisValue::from_redis_value(config).ok());
        Self::read(info.as_deref(), config.as_ref())
    }

    /// Returns the facts of several servers that share the lines: the worst value of each fact.
    pub(crate) fn worst(all: Vec<Self>) -> Self {
        let worst = all.into_iter().reduce(|one, other| Self {
            version: one.version.min(other.version),
            age: one.age.min(other.age),
            is_replica: one.is_replica || other.is_replica,
            is_loading: one.is_loading || other.is_loading,
            is_clustered: one.is_clustered && other.is_clustered,
            is_sentinel: one.is_sentinel || other.is_sentinel,
            replicas: one.replicas.min(other.replicas),
            writes_through: one.writes_through && other.writes_through,
            eviction: one.eviction.min(other.eviction),
        });
        worst.unwrap_or_default()
    }

    fn read(info: Option<&str>, config: Option<&HashMap<String, String>>) -> Self {
        let Some(info) = info else { return Self::default() };
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim_end)
        };
        let number = |name| field(name).and_then(|text| text.parse::<u64>().ok());
        let is_set = |name: &str, value: &str| {
            config.is_some_and(|config| config.get(name).is_some_and(|now| now == value))
        };
        let replicas = number("connected_slaves").and_then(|count| u32::try_from(count).ok());
        Self {
            version: field("redis_version").and_then(Version::read),
            age: number("uptime_in_seconds").map(Duration::from_secs),
            is_replica: field("role") == Some("slave"),
            is_loading: field("loading") == Some("1"),
            is_clustered: field("cluster_enabled") == Some("1"),
            is_sentinel: field("redis_mode") == Some("sentinel"),
            replicas: replicas.unwrap_or(0),
            writes_through: field("aof_enabled") == Some("1")
                && is_set("appendfsync", "always")
                && is_set("no-appendfsync-on-rewrite", "no"),
            eviction: match field("maxmemory_policy") {
                None => EvictionPolicy::Untold,
                Some("noeviction") => EvictionPolicy::Refuses,
                Some(policy) => EvictionPolicy::Evicts(policy.to_owned()),
            },
        }
    }

    /// Refuses a server that cannot keep locks at all.
    pub(crate) fn fit(&self, settings: &Settings) -> Result<()> {
        let name = &settings.name;
        let by_url = name.is_one();
        if by_url && self.is_sentinel {
            return Err(Error::invalid(format!(
                "the server {name} is a sentinel, and keeps no locks: write redis+sentinel://{name}/NAME, with the name of the service that it looks after"
            )));
        }
        if by_url && self.is_clustered && !self.is_loading {
            return Err(Error::invalid(format!(
                "the server {name} is a part of a cluster: write redis+cluster:// for it"
            )));
        }
        if let Some(version) = self.version.filter(|version| *version < VERSION_MIN) {
            return Err(Error::rejected(format!(
                "the server {name} is Redis {version}: Tenure needs Redis {VERSION_MIN} or later, or Valkey"
            )));
        }
        if self.is_loading {
            return Err(Error::unavailable(format!("the server {name} is still loading its data")));
        }
        match (self.is_replica, by_url) {
            (false, _) => Ok(()),
            (true, true) => Err(Error::invalid(format!(
                "the server {name} is a replica, and the master keeps the locks: name the master or the sentinels in the URL"
            ))),
            // The sentinels may not have agreed yet.
            (true, false) => Err(Error::unavailable(format!(
                "the server that was named as the master of {name} is a replica"
            ))),
        }
    }

    /// Returns the remaining time in which the server may have lost leases that clients still
    /// trust. The server reported its facts `since` ago. Returns `None` if `after_restart=trust`.
    pub(crate) fn refused_for(&self, settings: &Settings, since: Duration) -> Option<Duration> {
        if settings.after_restart == AfterRestart::Trust || self.writes_through {
            return None;
        }
        let age = self.age.unwrap_or(Duration::ZERO) + since;
        let left = (settings.ttl_max + AGE_ROUNDING).saturating_sub(age);
        (!left.is_zero()).then_some(left)
    }

    /// Returns the guarantees of locks on this server.
    pub(crate) fn guarantees(&self, settings: &Settings) -> Guarantees {
        // A replica that becomes the master may have a long uptime and still lack leases.
        let is_sentinel = matches!(settings.name, DeploymentName::Service(_));
        let refuses_after_restart = settings.after_restart == AfterRestart::Refuse && !is_sentinel;
        let mut guarantees = Guarantees::new("redis", Liveness::Lease);
        guarantees.fair = true;
        guarantees.push = true;
        guarantees.fencing = TokenDurability::Volatile;
        guarantees.survives.holder_crash = true;
        guarantees.survives.holder_pause = true;
        guarantees.survives.store_crash = self.writes_through || refuses_after_restart;
        guarantees.survives.full_memory = self.eviction == EvictionPolicy::Refuses;
        guarantees.warnings = self.warnings(settings);
        guarantees.store = settings.name.whom();
        guarantees.rounding = Duration::from_millis(1);
        guarantees.answers_within = settings.timeout;
        guarantees
    }

    /// Returns warnings for the operator.
    fn warnings(&self, settings: &Settings) -> Vec<String> {
        let name = &settings.name;
        let eviction = match &self.eviction {
            EvictionPolicy::Refuses => None,
            EvictionPolicy::Untold => Some(format!(
                "the server {name} does not let this user read its settings, so Tenure assumes that it may evict locks and lose them in a crash: allow INFO"
            )),
            EvictionPolicy::Evicts(policy) => {
                // The reported setting may contain a password that the client sent.
                let setting = format!("maxmemory-policy {policy}");
                let setting = redact(settings.secrets(), setting);
                let setting = setting.as_deref().unwrap_or("maxmemory-policy");
                Some(format!(
                    "the server {name} evicts locks when its memory is full ({setting}): set it to noeviction, or keep locks on a server of their own"
                ))
            }
        };
        let few = u32::from(settings.acks) > self.replicas && !self.is_clustered;
        let few = few.then(|| {
            format!(
                "the server {name} has {} replicas and every ticket waits for {}: no lock is given until it has more",
                self.replicas, settings.acks
            )
        });
        eviction.into_iter().chain(few).collect()
    }
}

impl Version {
    /// Reads `7.0.15` or `16.4`.
    fn read(text: &str) -> Option<Self> {
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

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:12\r\n\
        maxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\nconnected_slaves:1\r\ncluster_enabled:0\r\n";

    fn settings(url: &str) -> Settings {
        Settings::from_url(url).unwrap()
    }

    fn config(appendfsync: &str, not_in_rewrites: &str) -> HashMap<String, String> {
        let both = [("appendfsync", appendfsync), ("no-appendfsync-on-rewrite", not_in_rewrites)];
        both.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    fn good() -> ServerFacts {
        ServerFacts::read(Some(INFO), Some(&config("always", "no")))
    }

    #[test]
    fn a_server_is_read() {
        let facts = good();
        assert!(facts.version == Some(Version(7, 0)) && facts.replicas == 1);
        assert!(facts.writes_through);
        let plain = settings("redis://h");
        assert!(facts.fit(&plain).is_ok());
        let profile = facts.guarantees(&plain);
        assert!(profile.survives.store_crash && profile.survives.full_memory);
        assert!(profile.warnings.is_empty());
    }

    #[test]
    fn what_can_drop_locks_is_warned_about() {
        let info = INFO.replace("noeviction", "volatile-lru");
        let profile = ServerFacts::read(Some(&info), Some(&config("everysec", "no")))
            .guarantees(&settings("redis://h?acks=2"));
        assert!(!profile.survives.full_memory && !profile.survives.store_crash);
        assert_eq!(profile.warnings.len(), 2);
        assert!(profile.warnings[0].contains("maxmemory-policy volatile-lru"), "{profile:?}");
        let unknown = ServerFacts::read(None, None).guarantees(&settings("redis://h"));
        assert!(!unknown.survives.full_memory);
    }

    #[test]
    fn a_crash_is_survived_only_where_every_write_is_known_to_be_on_disk_first() {
        let without_log = INFO.replace("aof_enabled:1", "aof_enabled:0");
        for (info, config, is_through) in [
            (INFO, Some(config("always", "no")), true),
            (INFO, Some(config("always", "yes")), false),
            (INFO, Some(config("everysec", "no")), false),
            (INFO, None, false),
            (&without_log, Some(config("always", "no")), false),
            (&without_log, None, false),
        ] {
            let facts = ServerFacts::read(Some(info), config.as_ref());
            let guarantees = facts.guarantees(&settings("redis://h"));
            assert_eq!(guarantees.survives.store_crash, is_through);
            assert!(guarantees.warnings.is_empty(), "{guarantees:?}");
        }
    }

    #[test]
    fn several_servers_are_as_good_as_the_worst() {
        let bad = ServerFacts::read(Some(&INFO.replace("noeviction", "allkeys-lru")), None);
        assert_eq!(ServerFacts::worst(vec![good(), good()]), good());
        for worst in [vec![good(), bad.clone()], vec![bad.clone(), good()]] {
            assert_eq!(ServerFacts::worst(worst), bad);
        }
        assert_eq!(ServerFacts::worst(Vec::new()), ServerFacts::default());
    }

    #[test]
    fn a_server_that_cannot_keep_locks_is_refused() {
        let (by_url, by_sentinels) = (settings("redis://h"), settings("redis+sentinel://h/main"));
        for (from, to, settings, kind, part) in [
            (
                "7.0.15",
                "6.0.9",
                &by_url,
                ErrorKind::Rejected,
                "is Redis 6.0: Tenure needs Redis 6.2",
            ),
            ("role:master", "role:slave", &by_url, ErrorKind::Invalid, "name the master"),
            ("role:master", "role:slave", &by_sentinels, ErrorKind::Unavailable, "is a replica"),
            ("cluster_enabled:0", "cluster_enabled:1", &by_url, ErrorKind::Invalid, "of a cluster"),
            ("role:", "loading:1\r\nrole:", &by_url, ErrorKind::Unavailable, "still loading"),
        ] {
            let facts = ServerFacts::read(Some(&INFO.replace(from, to)), None);
            let error = facts.fit(settings).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_young_server_is_refused_until_what_it_may_have_forgotten_is_over() {
        let (trusting, careful) =
            (settings("redis://h"), settings("redis://h?after_restart=refuse&ttl_max=20s"));
        let facts = ServerFacts::read(Some(INFO), Some(&config("everysec", "no")));
        let second = Duration::from_secs(1);
        assert_eq!(facts.refused_for(&trusting, Duration::ZERO), None);
        assert_eq!(facts.refused_for(&careful, second), Some(8 * second));
        assert_eq!(facts.refused_for(&careful, 9 * second), None);
        assert_eq!(good().refused_for(&careful, second), None);
        assert!(facts.guarantees(&careful).survives.store_crash);
    }
}
