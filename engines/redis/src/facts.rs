//! The facts that a server reports, and the guarantees, refusals and warnings that follow from
//! them.

use std::collections::HashMap;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisResult, Value, cmd};
use tenure_core::{Error, Guarantees, Result};

use crate::server_facts::{EvictionPolicy, NamedBy, Persistence, ServerFacts, Version};
use crate::settings::{AfterRestart, DeploymentName, Settings};

/// The answers to INFO and CONFIG, as far as this user may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    findings: ServerFacts,
    is_clustered: bool,
    is_sentinel: bool,
    replicas: u32,
}

impl Facts {
    /// Returns the two commands that ask a server for its facts: INFO and CONFIG.
    pub(crate) fn questions() -> (Cmd, Cmd) {
        let mut config = cmd("CONFIG");
        // Redis 6.2 takes one name only, and both of these have it in them.
        config.arg("GET").arg("*appendfsync*");
        (cmd("INFO"), config)
    }

    /// Reads the answers to the [questions](Facts::questions); each may have been denied.
    pub(crate) fn of(info: RedisResult<Value>, config: RedisResult<Value>) -> Self {
        let info = info.ok().and_then(|info| String::from_redis_value(info).ok());
        let config: Option<HashMap<String, String>> =
            config.ok().and_then(|config| FromRedisValue::from_redis_value(config).ok());
        Self::read(info.as_deref(), config.as_ref())
    }

    /// Returns the facts of several servers that share the lines: the worst value of each fact.
    pub(crate) fn worst(all: Vec<Self>) -> Self {
        Self {
            is_clustered: !all.is_empty() && all.iter().all(|facts| facts.is_clustered),
            is_sentinel: all.iter().any(|facts| facts.is_sentinel),
            replicas: all.iter().map(|facts| facts.replicas).min().unwrap_or(0),
            findings: ServerFacts::worst(all.into_iter().map(|facts| facts.findings)),
        }
    }

    fn read(info: Option<&str>, config: Option<&HashMap<String, String>>) -> Self {
        let Some(info) = info else { return Self::default() };
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim_end)
        };
        let number = |name| field(name).and_then(|text| text.parse::<u64>().ok());
        let findings = ServerFacts {
            version: field("redis_version").and_then(Version::read),
            age: number("uptime_in_seconds").map(Duration::from_secs),
            is_replica: field("role") == Some("slave"),
            is_loading: field("loading") == Some("1"),
            disk: if field("aof_enabled") == Some("1") {
                disk(config)
            } else {
                Persistence::Behind
            },
            full: match field("maxmemory_policy") {
                None => EvictionPolicy::Untold,
                Some("noeviction") => EvictionPolicy::Refuses,
                Some(policy) => EvictionPolicy::Forgets(format!("maxmemory-policy {policy}")),
            },
        };
        let replicas = number("connected_slaves").and_then(|count| u32::try_from(count).ok());
        Self {
            findings,
            is_clustered: field("cluster_enabled") == Some("1"),
            is_sentinel: field("redis_mode") == Some("sentinel"),
            replicas: replicas.unwrap_or(0),
        }
    }

    pub(crate) fn version(&self) -> Option<Version> {
        self.findings.version
    }

    /// Refuses a server that cannot do it at all.
    pub(crate) fn fit(&self, settings: &Settings) -> Result<()> {
        let name = &settings.name;
        let by_url = name.is_one();
        // The sentinels may not have agreed yet.
        let named_by = if by_url { NamedBy::Url } else { NamedBy::Servers };
        if by_url && self.is_sentinel {
            return Err(Error::invalid(format!(
                "the server {name} is a sentinel, and keeps no locks: write redis+sentinel://{name}/NAME, with the name of the service that it looks after"
            )));
        }
        if by_url && self.is_clustered && !self.findings.is_loading {
            return Err(Error::invalid(format!(
                "the server {name} is a part of a cluster: write redis+cluster:// for it"
            )));
        }
        self.findings.fit(&name.to_string(), named_by)
    }

    /// Returns the remaining time in which the server may have lost leases that clients still
    /// trust. The server reported its facts `since` ago. Returns `None` if `after_restart=trust`.
    pub(crate) fn refused_for(&self, settings: &Settings, since: Duration) -> Option<Duration> {
        match settings.after_restart {
            AfterRestart::Trust => None,
            AfterRestart::Refuse => self.findings.refused_for(settings.ttl_max, since),
        }
    }

    /// Returns the guarantees of locks on this server.
    pub(crate) fn profile(&self, settings: &Settings) -> Guarantees {
        // A replica that becomes the master may have a long uptime and still lack leases.
        let sentinel = matches!(settings.name, DeploymentName::Service(_));
        let refuses_after_restart = settings.after_restart == AfterRestart::Refuse && !sentinel;
        let mut profile = self.findings.profile("redis", refuses_after_restart);
        profile.warnings = self.warnings(settings);
        profile.store = settings.name.whom();
        profile.rounding = Duration::from_millis(1);
        profile.answers_within = settings.timeout;
        profile
    }

    fn warnings(&self, settings: &Settings) -> Vec<String> {
        let name = &settings.name;
        let mut findings = self.findings.clone();
        // The reported setting may contain a password that the client sent.
        if let EvictionPolicy::Forgets(setting) = &mut findings.full
            && settings.secrets().any(|secret| secret.shows_in(setting))
        {
            "maxmemory-policy".clone_into(setting);
        }
        let mut warnings = findings.warnings(&name.to_string());
        if u32::from(settings.acks) > self.replicas && !self.is_clustered {
            warnings.push(format!(
                "the server {name} has {} replicas and every ticket waits for {}: no lock is given until it has more",
                self.replicas, settings.acks
            ));
        }
        warnings
    }
}

/// Returns when writes reach the disk of a server with an append-only file. The result is `Untold`
/// if this user may not read the settings.
fn disk(config: Option<&HashMap<String, String>>) -> Persistence {
    let Some(config) = config else { return Persistence::Untold };
    let is = |name: &str, value: &str| config.get(name).is_some_and(|now| now == value);
    if !is("appendfsync", "always") {
        Persistence::Behind
    } else if is("no-appendfsync-on-rewrite", "no") {
        Persistence::Through
    } else {
        Persistence::BehindAtTimes
    }
}

#[cfg(test)]
mod tests {
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

    fn good() -> Facts {
        Facts::read(Some(INFO), Some(&config("always", "no")))
    }

    #[test]
    fn a_server_is_read() {
        let facts = good();
        assert!(facts.version() == Some(Version(7, 0)) && facts.replicas == 1);
        assert_eq!(facts.findings.disk, Persistence::Through);
        let plain = settings("redis://h");
        assert!(facts.fit(&plain).is_ok());
        let profile = facts.profile(&plain);
        assert!(profile.survives.store_crash && profile.survives.full_memory);
        assert!(profile.warnings.is_empty());
    }

    #[test]
    fn what_can_drop_locks_is_warned_about() {
        let info = INFO.replace("noeviction", "volatile-lru");
        let profile = Facts::read(Some(&info), Some(&config("everysec", "no")))
            .profile(&settings("redis://h?acks=2"));
        assert!(!profile.survives.full_memory && !profile.survives.store_crash);
        assert_eq!(profile.warnings.len(), 2);
        assert!(profile.warnings[0].contains("maxmemory-policy volatile-lru"), "{profile:?}");
        let unknown = Facts::read(None, None).profile(&settings("redis://h"));
        assert!(!unknown.survives.full_memory);
    }

    #[test]
    fn a_crash_is_survived_only_where_every_write_is_known_to_be_on_disk_first() {
        let without_log = INFO.replace("aof_enabled:1", "aof_enabled:0");
        for (info, config, disk, warning) in [
            (INFO, Some(config("always", "no")), Persistence::Through, None),
            (INFO, Some(config("always", "yes")), Persistence::BehindAtTimes, Some("to no")),
            (INFO, Some(config("everysec", "no")), Persistence::Behind, None),
            (INFO, None, Persistence::Untold, Some("could not be checked")),
            (&without_log, Some(config("always", "no")), Persistence::Behind, None),
            (&without_log, None, Persistence::Behind, None),
        ] {
            let facts = Facts::read(Some(info), config.as_ref());
            let profile = facts.profile(&settings("redis://h"));
            assert_eq!(facts.findings.disk, disk);
            assert_eq!(profile.survives.store_crash, disk == Persistence::Through);
            assert_eq!(profile.warnings.len(), usize::from(warning.is_some()), "{profile:?}");
            assert!(profile.warnings.iter().all(|it| it.contains(warning.unwrap())), "{profile:?}");
        }
    }

    #[test]
    fn several_servers_are_as_good_as_the_worst() {
        let bad = Facts::read(Some(&INFO.replace("noeviction", "allkeys-lru")), None);
        assert_eq!(Facts::worst(vec![good(), good()]), good());
        for worst in [vec![good(), bad.clone()], vec![bad.clone(), good()]] {
            assert_eq!(Facts::worst(worst), bad);
        }
        assert_eq!(Facts::worst(Vec::new()), Facts::default());
    }

    #[test]
    fn a_server_that_cannot_do_it_is_refused() {
        for (from, to) in [
            ("7.0.15", "6.0.9"),
            ("role:master", "role:slave"),
            ("cluster_enabled:0", "cluster_enabled:1"),
        ] {
            let info = INFO.replace(from, to);
            assert!(Facts::read(Some(&info), None).fit(&settings("redis://h")).is_err(), "{to}");
        }
    }

    #[test]
    fn a_server_that_is_loading_is_waited_for() {
        let info = format!("{INFO}loading:1\r\n");
        let error = Facts::read(Some(&info), None).fit(&settings("redis://h")).unwrap_err();
        assert!(error.is_retryable() && error.to_string().contains("still loading"), "{error}");
    }

    #[test]
    fn a_young_server_is_refused_until_what_it_may_have_forgotten_is_over() {
        let (trusting, careful) =
            (settings("redis://h"), settings("redis://h?after_restart=refuse&ttl_max=20s"));
        let facts = Facts::read(Some(INFO), Some(&config("everysec", "no")));
        let second = Duration::from_secs(1);
        assert_eq!(facts.refused_for(&trusting, Duration::ZERO), None);
        assert_eq!(facts.refused_for(&careful, second), Some(8 * second));
        assert_eq!(facts.refused_for(&careful, 9 * second), None);
        assert_eq!(good().refused_for(&careful, second), None);
        assert!(facts.profile(&careful).survives.store_crash);
    }
}
