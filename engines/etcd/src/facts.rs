//! Results of a start-up check: guarantees of a cluster of this version, and warnings for its
//! operator.

use tenure_core::{EventDelivery, Guarantees, Liveness, TokenDurability};

use crate::settings::Settings;

/// The branches 3.4 to 3.6: the first version without a fault that could be avoided, and the first
/// whose leader asks the others whether it still leads before it revokes a lease, or renews one
/// (etcd's issue 15247). The README has all faults.
const BRANCHES: [(u32, u32, u32); 3] = [(4, 38, 31), (5, 23, 13), (6, 5, 0)];

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
    // Versions that are reported to root alone have only faults that this engine makes up for.
    let mut warnings: Vec<String> = version.and_then(of_version).into_iter().collect();
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

fn of_version(version: &str) -> Option<String> {
    let Some((3, minor @ 4.., patch)) = parse(version) else {
        return Some(format!(
            "etcd {version} is not known to Tenure, which is tested with 3.4 and 3.5"
        ));
    };
    let (_, sound, leaders) = *BRANCHES.iter().find(|(of, ..)| *of == minor)?;
    let fault = if patch < leaders {
        "after a leader stood still, two clients may hold one lock"
    } else {
        "it has faults, which the README of tenure-etcd lists"
    };
    let warning = format!("take etcd 3.{minor}.{sound} or later, not {version}: {fault}");
    (patch < sound).then_some(warning)
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
    fn a_version_with_faults_is_warned_of_in_one_sentence() {
        for (version, sentence) in [
            ("3.4.23", "take etcd 3.4.38 or later, not 3.4.23: after a leader stood still"),
            ("3.5.1", "take etcd 3.5.23 or later, not 3.5.1: after a leader stood still"),
            ("3.6.4", "take etcd 3.6.5 or later, not 3.6.4: it has faults"),
            ("3.5.21", "take etcd 3.5.23 or later, not 3.5.21: it has faults"),
            ("2.3.8", "etcd 2.3.8 is not known to Tenure"),
            ("x", "etcd x is not known to Tenure"),
        ] {
            let warned = warned(version);
            assert!(warned.len() == 1 && warned[0].starts_with(sentence), "{warned:?}");
        }
        for version in ["3.4.38", "3.5.23", "3.6.5", "3.7.0"] {
            assert_eq!(warned(version), [""; 0], "{version}");
        }
    }

    #[test]
    fn one_member_is_not_enough() {
        for url in ["etcd://a", "etcd://a,a:2379"] {
            let warned = warnings(&Settings::from_url(url).unwrap(), Some("3.5.23"));
            assert!(warned.len() == 1 && warned[0].contains("one member"), "{url}: {warned:?}");
        }
    }
}
