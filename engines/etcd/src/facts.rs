//! Results of a start-up check: guarantees of a cluster of this version, and warnings for its
//! operator.

use tenure_core::{EventDelivery, Guarantees, Liveness, TokenDurability};

use crate::settings::Settings;

/// Faults, and the first versions of 3.4, 3.5 and 3.6 without them. `None`: never in that branch.
/// The worst comes first. The README has them all.
const FAULTS: [([Option<u32>; 3], &str); 6] = [
    ([None, Some(3), None], "what was confirmed may be lost by a member that crashes under load"),
    (
        OLD_LEADERS,
        "a leader whose disk stood still may revoke leases that were renewed, so that two hold",
    ),
    (
        LOST_READERS,
        "a member may end when whoever reads in a transaction goes away (Tenure reads without one there)",
    ),
    (
        [Some(36), Some(18), None],
        "a watch that is opened at the revision of a compaction misses deletions",
    ),
    (
        [Some(38), Some(22), Some(2)],
        "a watch may replay events of the past (Tenure leaves them out)",
    ),
    (
        [Some(38), Some(23), Some(5)],
        "a keep-alive may be answered for a lease that is revoked (Tenure reads its own key again)",
    ),
];

/// First versions whose leader asks the others whether it still leads before it revokes a lease, or
/// renews one (etcd's issue 15247).
const OLD_LEADERS: [Option<u32>; 3] = [Some(31), Some(13), None];

/// First versions whose members outlive a client that reads in a transaction, and goes away before
/// the answer (etcd's issues 14110 and 14891).
const LOST_READERS: [Option<u32>; 3] = [Some(23), Some(7), None];

/// Returns whether a member of this version does. An unknown version counts as an old one. A
/// version that is reported to root alone does not.
pub(crate) fn survives_lost_readers(version: Option<&str>) -> bool {
    let Some(version) = version else { return true };
    match parse(version) {
        Some((3, minor @ 4..=6, patch)) => {
            fixed_in(LOST_READERS, minor).is_none_or(|fixed| patch >= fixed)
        }
        Some((major, minor, _)) => (major, minor) > (3, 6),
        None => false,
    }
}

/// Returns the guarantees of a member of this version.
pub(crate) fn profile(settings: &Settings, version: Option<&str>) -> Guarantees {
    let mut profile = Guarantees::new("etcd", Liveness::Session);
    profile.store = settings.whom();
    profile.events = EventDelivery::Every;
    profile.fencing = TokenDurability::Volatile;
    profile.survives.store_crash = true;
    profile.survives.failover = true;
    profile.survives.clock_step = true;
    profile.survives.full_memory = true;
    profile.answers_within = settings.answers_within();
    profile.warnings = warnings(settings, version);
    profile
}

fn warnings(settings: &Settings, version: Option<&str>) -> Vec<String> {
    let mut warnings = Vec::new();
    // Versions that are reported to root alone have only faults that this engine makes up for.
    match version.map(|version| (version, parse(version))) {
        None => {}
        Some((version, Some((3, minor @ 4..=6, patch)))) => {
            warnings.extend(of_branch(version, minor, patch));
        }
        Some((_, Some((3, minor, _)))) if minor > 6 => {}
        Some((version, _)) => warnings.push(format!(
            "etcd {version} is not known to Tenure, which is tested with 3.4 and 3.5"
        )),
    }
    // A member that is named twice counts once.
    let (first, others) = (settings.members.first(), settings.members.iter().skip(1));
    if others.clone().all(|other| Some(other) == first) {
        warnings.push(
            "the URL names only one member of etcd: while that one is down, no lock can be taken. If the cluster has more members, name them all"
                .into(),
        );
    }
    warnings
}

/// Returns the worst fault of this version, and the count of others, so that a warning stays short.
fn of_branch(version: &str, minor: u32, patch: u32) -> Option<String> {
    let of_it = |(fixed, fault): &(_, &'static str)| Some((fixed_in(*fixed, minor)?, *fault));
    let faults = FAULTS.iter().filter_map(of_it);
    let (fixed, faults): (Vec<u32>, Vec<&str>) = faults.filter(|(fixed, _)| patch < *fixed).unzip();
    let (last, worst) = (fixed.into_iter().max()?, faults.first()?);
    let more = match faults.len() - 1 {
        0 => String::new(),
        1 => " (and one more fault)".into(),
        more => format!(" (and {more} more faults)"),
    };
    Some(format!("take etcd 3.{minor}.{last} or later: in {version} {worst}{more}"))
}

/// Returns the first version of the branch 3.`minor` without a fault.
fn fixed_in(branches: [Option<u32>; 3], minor: u32) -> Option<u32> {
    let [four, five, six] = branches;
    match minor {
        4 => four,
        5 => five,
        6 => six,
        _ => None,
    }
}

fn parse(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(version: &str) -> Vec<String> {
        warnings(&Settings::from_url("etcd://a,b,c").unwrap(), Some(version))
    }

    #[test]
    fn what_each_version_gets_wrong_is_said_in_one_sentence() {
        for (version, sentence) in [
            ("3.4.23", "take etcd 3.4.38 or later: in 3.4.23 a leader whose disk"),
            ("3.5.1", "take etcd 3.5.23 or later: in 3.5.1 what was confirmed"),
            ("3.6.4", "take etcd 3.6.5 or later: in 3.6.4 a keep-alive may be answered"),
            ("3.5.21", "take etcd 3.5.23 or later: in 3.5.21 a watch may replay"),
            ("2.3.8", "etcd 2.3.8 is not known to Tenure"),
            ("x", "etcd x is not known to Tenure"),
        ] {
            let warned = warned(version);
            assert!(warned.len() == 1 && warned[0].starts_with(sentence), "{warned:?}");
        }
        assert!(warned("3.4.23")[0].ends_with(" (and 3 more faults)"));
        assert!(warned("3.5.21")[0].ends_with(" (and one more fault)"));
        assert!(warned("3.6.4")[0].ends_with("its own key again)"));
        for version in ["3.4.38", "3.5.23", "3.6.5", "3.7.0"] {
            assert_eq!(warned(version), [""; 0], "{version}");
        }
    }

    #[test]
    fn an_old_member_is_not_asked_in_transactions_that_only_read() {
        for version in ["3.3.27", "3.4.22", "3.5.1", "3.5.6", "x"] {
            assert!(!survives_lost_readers(Some(version)), "{version}");
        }
        for version in ["3.4.23", "3.5.7", "3.6.0", "3.7.1", "4.0.0"] {
            assert!(survives_lost_readers(Some(version)), "{version}");
        }
        assert!(survives_lost_readers(None));
    }

    #[test]
    fn one_member_is_not_enough() {
        for url in ["etcd://a", "etcd://a,a:2379"] {
            let warned = warnings(&Settings::from_url(url).unwrap(), Some("3.5.23"));
            assert!(warned.len() == 1 && warned[0].contains("one member"), "{url}: {warned:?}");
        }
    }
}
