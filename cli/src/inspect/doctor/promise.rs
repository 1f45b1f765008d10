//! The guarantees by name, each with its reason, and a command that gives it where there is one.

use clap::ValueEnum;
use tenure::guarantees::{Guarantee, Guarantees, Liveness, TokenDurability};

use super::finding::{Finding, Verdict};

/// A guarantee, as options and reports name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Promise {
    Fair,
    Push,
    EveryEvent,
    Tokens,
    DurableTokens,
    HolderCrash,
    HolderPause,
    StoreCrash,
    Failover,
    ClockStep,
    FullMemory,
}

/// Reasons why an engine does not have a guarantee, with the command that gives it. The facts of
/// the server itself are in the warnings.
const WHY_NOT: &[(&str, Promise, &str, Option<&str>)] = &[
    (
        "file",
        Promise::HolderPause,
        "the kernel knows that a paused process lives, so it keeps its lock until it runs again or dies",
        None,
    ),
    ("file", Promise::Failover, "the directory is on one machine, so no other takes over", None),
    (
        "mongodb",
        Promise::Failover,
        "fewer than three members have data, so no majority is left without one of them",
        Some("mongosh: rs.add(\"HOST:27017\")"),
    ),
    (
        "mongodb",
        Promise::Push,
        "this server has no change stream for this user, so waiters poll",
        None,
    ),
    (
        "postgres",
        Promise::Push,
        "notifications do not pass the pooler, or the URL has notify=poll, so waiters poll",
        Some("add notify_host=HOST of the server itself to the URL"),
    ),
    (
        "postgres",
        Promise::StoreCrash,
        "fsync or full_page_writes is off, so a crash of the machine loses locks",
        Some(
            "psql: ALTER SYSTEM SET fsync = on; ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();",
        ),
    ),
    (
        "postgres",
        Promise::Failover,
        "no standby is synchronous, so a promoted one may lack the latest locks",
        Some(
            "psql: ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (STANDBY)'; SELECT pg_reload_conf();",
        ),
    ),
    (
        "redis",
        Promise::StoreCrash,
        "not every write is known to be on disk before it is answered, so a restart may lose locks",
        Some("redis-cli: CONFIG SET appendonly yes, CONFIG SET appendfsync always"),
    ),
    (
        "redis",
        Promise::Failover,
        "replicas are asynchronous, so a promoted one may lack the latest locks",
        None,
    ),
    (
        "redis",
        Promise::FullMemory,
        "the server is not known to refuse writes when its memory is full, so it may evict locks",
        Some("redis-cli: CONFIG SET maxmemory-policy noeviction"),
    ),
    ("redlock", Promise::Fair, "each server has an order of its own", None),
    (
        "redlock",
        Promise::Failover,
        "a server that takes over from another may lack its locks, and counts as the same one",
        None,
    ),
    (
        "redlock",
        Promise::StoreCrash,
        "a server counts again at once after its restart, and may have lost locks",
        Some("leave after_restart=trust out of the URL"),
    ),
    (
        "zookeeper",
        Promise::Failover,
        "one server runs alone, so no other takes over",
        Some("run an ensemble of three servers, and name them all in the URL"),
    ),
];

impl Promise {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        Self::value_variants().iter().copied()
    }

    /// Whether a store has this guarantee, with the reason.
    pub(super) fn finding(self, guarantees: &Guarantees, required: &[Self]) -> Finding {
        let is_met = guarantees.meets(self.guarantee());
        let verdict = match is_met {
            true => Verdict::Yes,
            false if required.contains(&self) => Verdict::Missing,
            false => Verdict::No,
        };
        let special = WHY_NOT.iter().find(|(engine, promise, ..)| {
            !is_met && *engine == guarantees.name && *promise == self
        });
        let (text, cure) = match special {
            Some((_, _, why, cure)) => (*why, *cure),
            None => (self.reason(is_met, guarantees.liveness), None),
        };
        Finding::new("guarantee", self.name(), verdict, text).with_cure(cure)
    }

    fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    fn guarantee(self) -> Guarantee {
        match self {
            Self::Fair => Guarantee::Fair,
            Self::Push => Guarantee::Push,
            Self::EveryEvent => Guarantee::EveryEvent,
            Self::Tokens => Guarantee::Fencing(TokenDurability::Volatile),
            Self::DurableTokens => Guarantee::Fencing(TokenDurability::Durable),
            Self::HolderCrash => Guarantee::HolderCrash,
            Self::HolderPause => Guarantee::HolderPause,
            Self::StoreCrash => Guarantee::StoreCrash,
            Self::Failover => Guarantee::Failover,
            Self::ClockStep => Guarantee::ClockStep,
            Self::FullMemory => Guarantee::FullMemory,
        }
    }

    /// The reason where the engine has none of its own.
    fn reason(self, is_met: bool, liveness: Liveness) -> &'static str {
        match (self, is_met) {
            (Self::Fair, true) => "waiters are served in the order in which they came",
            (Self::Fair, false) => "waiters are served in any order",
            (Self::Push, true) => "the store notifies the next waiter",
            (Self::Push, false) => "the store notifies no waiter, so waiters poll",
            (Self::EveryEvent, true) => "the store has a journal, so watchers get every event",
            (Self::EveryEvent, false) => {
                "watchers read at intervals, and miss a ticket that comes and goes between two reads"
            }
            (Self::Tokens, true) => {
                "tokens grow while the store keeps its data or its clock is right"
            }
            (Self::Tokens, false) => "tokens may repeat at any time",
            (Self::DurableTokens, true) => "tokens grow in every failure of the store",
            (Self::DurableTokens, false) => {
                "tokens may repeat if the store is restored from older data while its clock is behind"
            }
            (Self::HolderCrash, true) if liveness == Liveness::Kernel => {
                "the kernel frees the lock of a dead process at once"
            }
            (Self::HolderCrash, true) => "the lock of a dead holder is free when its ttl is over",
            (Self::HolderCrash, false) => "the lock of a dead holder stays locked",
            (Self::HolderPause, true) => {
                "the lock of a paused holder is free when its ttl is over, and the holder learns of it"
            }
            (Self::HolderPause, false) => "the lock of a paused holder stays locked",
            (Self::StoreCrash, true) => "every lock keeps its holder when the store restarts",
            (Self::StoreCrash, false) => "a restart of the store may lose locks",
            (Self::Failover, true) => "every lock keeps its holder when another server takes over",
            (Self::Failover, false) => "locks may be lost when another server takes over",
            (Self::ClockStep, true) => "a lease lasts for its ttl when the store's clock is set",
            (Self::ClockStep, false) => {
                "leases end by the store's clock: let NTP slew that clock, and never step it"
            }
            (Self::FullMemory, true) => {
                "a store with full memory refuses new tickets and keeps the old ones"
            }
            (Self::FullMemory, false) => "a store with full memory may drop locks",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_an_engine_explains_a_missing_guarantee_only() {
        let mut guarantees = Guarantees::new("redis", Liveness::Lease);
        let missing = Promise::StoreCrash.finding(&guarantees, &[Promise::StoreCrash]);
        assert_eq!(missing.verdict, Verdict::Missing);
        assert!(missing.cure.is_some_and(|cure| cure.contains("appendfsync always")));
        assert_eq!(Promise::StoreCrash.finding(&guarantees, &[]).verdict, Verdict::No);
        guarantees.survives.store_crash = true;
        let met = Promise::StoreCrash.finding(&guarantees, &[Promise::StoreCrash]);
        assert_eq!((met.verdict, met.cure), (Verdict::Yes, None));
    }

    #[cfg(all(feature = "file", feature = "mongodb", feature = "postgres", feature = "redis"))]
    #[cfg(feature = "zookeeper")]
    #[test]
    fn every_engine_in_the_table_exists() {
        for (name, ..) in WHY_NOT {
            let engines = tenure::registry::REGISTER.iter();
            let has = |scheme: &str| engines.clone().any(|engine| engine.scheme(scheme).is_some());
            assert!(has(name), "{name}");
        }
    }
}
