//! What a server says of itself, and what follows for the locks it keeps.

use std::collections::HashMap;
use std::time::Duration;

use redis::{Cmd, FromRedisValue, RedisResult, Value, cmd};
use tenure_core::{Error, Fencing, Liveness, Profile, Result};

use crate::settings::{Place, Settings, Young};

/// A server's own age is in whole seconds.
const AGE_ROUNDING: Duration = Duration::from_secs(1);
/// The first version that can do what the scripts need.
const VERSION_MIN: (u32, u32) = (6, 2);

/// What INFO and CONFIG said, as far as this user may ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Made anew whenever the server starts.
    pub(crate) run: Option<String>,
    pub(crate) version: Option<(u32, u32)>,
    pub(crate) age: Option<Duration>,
    pub(crate) is_replica: bool,
    /// It has begun, and answers nothing about its data yet.
    pub(crate) is_loading: bool,
    pub(crate) is_clustered: bool,
    pub(crate) replicas: u32,
    /// What it does when its memory is full.
    pub(crate) eviction: Option<String>,
    pub(crate) disk: Disk,
}

/// Whether every write is on disk before it is answered, the worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Disk {
    /// It is not.
    #[default]
    Behind,
    /// It is, but not while the server rewrites its log.
    BehindInRewrites,
    /// There is a log, and this user may not ask when it is written.
    Untold,
    /// It is.
    Through,
}

impl Facts {
    /// What a server is asked about itself.
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

    /// What several servers that share the lines can be trusted to do: what the worst of them can.
    pub(crate) fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter()
            .reduce(|one, other| Self {
                run: None,
                version: one.version.min(other.version),
                age: one.age.min(other.age),
                is_replica: one.is_replica || other.is_replica,
                is_loading: one.is_loading || other.is_loading,
                is_clustered: one.is_clustered && other.is_clustered,
                replicas: one.replicas.min(other.replicas),
                eviction: if one.forgets() { one.eviction } else { other.eviction },
                disk: one.disk.min(other.disk),
            })
            .unwrap_or_default()
    }

    fn read(info: Option<&str>, config: Option<&HashMap<String, String>>) -> Self {
        let Some(info) = info else { return Self::default() };
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim_end)
        };
        let number = |name| field(name).and_then(|text| text.parse::<u64>().ok());
        let version = field("redis_version").and_then(|text| {
            let mut parts = text.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        });
        Self {
            run: field("run_id").map(str::to_owned),
            version,
            age: number("uptime_in_seconds").map(Duration::from_secs),
            is_replica: field("role") == Some("slave"),
            is_loading: field("loading") == Some("1"),
            is_clustered: field("cluster_enabled") == Some("1"),
            replicas: number("connected_slaves")
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(0),
            eviction: field("maxmemory_policy").map(str::to_owned),
            disk: if field("aof_enabled") == Some("1") { Disk::of(config) } else { Disk::Behind },
        }
    }

    /// Refuses a server that cannot do it at all.
    pub(crate) fn fit(&self, settings: &Settings) -> Result<()> {
        let place = &settings.place;
        if let Some(version @ (major, minor)) = self.version
            && version < VERSION_MIN
        {
            return Err(Error::rejected(format!(
                "the server {place} is Redis {major}.{minor}: Tenure needs Redis 6.2 or later, or Valkey"
            )));
        }
        match place {
            _ if self.is_loading => {
                Err(Error::unavailable(format!("the server {place} is still loading its data")))
            }
            Place::Server(_) | Place::Socket(_) if self.is_clustered => Err(Error::invalid(
                format!("the server {place} is a part of a cluster: write redis+cluster:// for it"),
            )),
            Place::Server(_) | Place::Socket(_) if self.is_replica => Err(Error::invalid(format!(
                "the server {place} is a replica, and locks are kept by the master: name that, or the sentinels"
            ))),
            // The sentinels may not have agreed yet.
            _ if self.is_replica => Err(Error::unavailable(format!(
                "a server that was named as the master of {place} is a replica"
            ))),
            _ => Ok(()),
        }
    }

    /// For how long it may still have forgotten locks that somebody believes in, `since` it said this.
    pub(crate) fn is_young_for(&self, settings: &Settings, since: Duration) -> Option<Duration> {
        if settings.young == Young::Trust || self.disk == Disk::Through {
            return None;
        }
        let age = self.age.unwrap_or(Duration::ZERO) + since;
        let left = (settings.ttl_max + AGE_ROUNDING).saturating_sub(age);
        (!left.is_zero()).then_some(left)
    }

    /// What locks on this server can be trusted to do.
    pub(crate) fn profile(&self, settings: &Settings) -> Profile {
        // A replica that becomes the master may be old, and have forgotten all the same.
        let sentinel = matches!(settings.place, Place::Sentinel { .. });
        let refuses_young = settings.young == Young::Refuse && !sentinel;
        let mut profile = Profile::new("redis", Liveness::Lease);
        profile.fair = true;
        profile.push = true;
        profile.fencing = Fencing::Volatile;
        profile.survives.holder_crash = true;
        profile.survives.holder_pause = true;
        profile.survives.store_crash = self.disk == Disk::Through || refuses_young;
        profile.survives.full_memory = !self.forgets();
        profile.warnings = self.warnings(settings);
        profile.rounding = Duration::from_millis(1);
        profile.answers_within = settings.timeout;
        profile
    }

    fn forgets(&self) -> bool {
        self.eviction.as_deref() != Some("noeviction")
    }

    fn warnings(&self, settings: &Settings) -> Vec<String> {
        let place = &settings.place;
        let mut warnings = Vec::new();
        match self.eviction.as_deref() {
            None => warnings.push(format!(
                "the server {place} does not tell this user how it is set up, so it is taken for one that keeps locks badly: allow INFO and CONFIG GET"
            )),
            Some(policy) if self.forgets() => warnings.push(format!(
                "the server {place} throws out locks when its memory is full (maxmemory-policy {policy}): set it to noeviction, or keep locks on a server of their own"
            )),
            Some(_) => {}
        }
        match self.disk {
            Disk::Behind | Disk::Through => {}
            Disk::BehindInRewrites => warnings.push(format!(
                "the server {place} does not wait for its disk while it rewrites its log, and a crash may then lose locks: set no-appendfsync-on-rewrite to no"
            )),
            Disk::Untold => warnings.push(format!(
                "whether the server {place} has every write on disk before it answers could not be checked, so it is taken for one that has not: allow CONFIG GET to check it"
            )),
        }
        if u32::from(settings.acks) > self.replicas && !self.is_clustered {
            warnings.push(format!(
                "the server {place} has {} replicas and every ticket waits for {}: no lock is given until it has more",
                self.replicas, settings.acks
            ));
        }
        warnings
    }
}

impl Disk {
    /// What the settings of a server with a log say, if this user may ask for them.
    fn of(config: Option<&HashMap<String, String>>) -> Self {
        let Some(config) = config else { return Self::Untold };
        let is = |name: &str, value: &str| config.get(name).is_some_and(|now| now == value);
        if !is("appendfsync", "always") {
            Self::Behind
        } else if is("no-appendfsync-on-rewrite", "no") {
            Self::Through
        } else {
            Self::BehindInRewrites
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\nuptime_in_seconds:12\r\n\
        maxmemory_policy:noeviction\r\naof_enabled:1\r\nrole:master\r\nconnected_slaves:1\r\ncluster_enabled:0\r\n";

    fn settings(url: &str) -> Settings {
        Settings::parse(url).unwrap()
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
        assert_eq!((facts.run.as_deref(), facts.version), (Some("abc"), Some((7, 0))));
        assert!(facts.disk == Disk::Through && facts.replicas == 1);
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
            (INFO, Some(config("always", "no")), Disk::Through, None),
            (INFO, Some(config("always", "yes")), Disk::BehindInRewrites, Some("to no")),
            (INFO, Some(config("everysec", "no")), Disk::Behind, None),
            (INFO, None, Disk::Untold, Some("could not be checked")),
            (&without_log, Some(config("always", "no")), Disk::Behind, None),
            (&without_log, None, Disk::Behind, None),
        ] {
            let facts = Facts::read(Some(info), config.as_ref());
            let profile = facts.profile(&settings("redis://h"));
            assert_eq!(facts.disk, disk);
            assert_eq!(profile.survives.store_crash, disk == Disk::Through);
            assert_eq!(profile.warnings.len(), usize::from(warning.is_some()), "{profile:?}");
            assert!(profile.warnings.iter().all(|it| it.contains(warning.unwrap())), "{profile:?}");
        }
    }

    #[test]
    fn several_servers_are_as_good_as_the_worst() {
        let bad = Facts::read(Some(&INFO.replace("noeviction", "allkeys-lru")), None);
        assert_eq!(Facts::worst([good(), good()]), Facts { run: None, ..good() });
        for worst in [Facts::worst([good(), bad.clone()]), Facts::worst([bad, good()])] {
            assert_eq!(worst.eviction.as_deref(), Some("allkeys-lru"));
            assert!(worst.disk == Disk::Untold && worst.is_clustered == good().is_clustered);
        }
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
        assert!(error.is_unknown() && error.to_string().contains("still loading"), "{error}");
    }

    #[test]
    fn a_young_server_is_refused_until_what_it_may_have_forgotten_is_over() {
        let (trusting, careful) =
            (settings("redis://h"), settings("redis://h?young=refuse&ttl_max=20s"));
        let facts = Facts::read(Some(INFO), Some(&config("everysec", "no")));
        let second = Duration::from_secs(1);
        assert_eq!(facts.is_young_for(&trusting, Duration::ZERO), None);
        assert_eq!(facts.is_young_for(&careful, second), Some(8 * second));
        assert_eq!(facts.is_young_for(&careful, 9 * second), None);
        assert_eq!(good().is_young_for(&careful, second), None);
        assert!(facts.profile(&careful).survives.store_crash);
    }
}
