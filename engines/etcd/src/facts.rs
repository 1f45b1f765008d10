//! What a start-up check finds: what a cluster of this version promises, and what its operator should know.

use tenure_core::{Fencing, Liveness, Profile, Sight};

use crate::settings::Settings;

/// What was wrong until a version of each branch: 3.4, 3.5, 3.6. `None`: never in that branch.
const FAULTS: [([Option<u32>; 3], &str); 4] = [
    (
        [Some(31), Some(13), None],
        "an old leader may revoke leases that were renewed, and a watch may lose events after a compaction",
    ),
    (
        [Some(36), Some(18), None],
        "a watch that is opened at the revision of a compaction misses deletions",
    ),
    (
        [Some(38), Some(22), Some(2)],
        "a watch may replay events of the past; Tenure leaves them out",
    ),
    (
        [Some(38), Some(23), Some(5)],
        "a keep-alive may be answered for a lease that is revoked; Tenure reads its own key again",
    ),
];

/// What a member of this version promises.
pub(crate) fn profile(settings: &Settings, version: &str) -> Profile {
    let mut profile = Profile::new("etcd", Liveness::Session);
    profile.events = Sight::Every;
    profile.fencing = Fencing::Volatile;
    profile.survives.store_crash = true;
    profile.survives.failover = true;
    profile.survives.clock_step = true;
    profile.survives.full_memory = true;
    profile.answers_within = settings.answers_within();
    profile.warnings = warnings(settings, version);
    profile
}

fn warnings(settings: &Settings, version: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    match parse(version) {
        Some((3, minor @ 4..=6, patch)) => {
            let branch = usize::try_from(minor - 4).unwrap_or(0);
            for (fixed, fault) in FAULTS {
                if let Some(fixed) = fixed[branch].filter(|fixed| patch < *fixed) {
                    warnings
                        .push(format!("etcd {version}: {fault}: take 3.{minor}.{fixed} or later"));
                }
            }
        }
        Some((3, minor, _)) if minor > 6 => {}
        _ => warnings.push(format!(
            "etcd {version} is not known to Tenure, which is tested with 3.4 to 3.6"
        )),
    }
    if settings.members.len() == 1 {
        warnings.push(
            "the URL names one member of etcd: without it nothing is locked, even if others live"
                .into(),
        );
    }
    warnings.push(
        "a snapshot that is restored takes revisions back, and tokens with them, unless it is restored with --bump-revision: a client that lived through it refuses the cluster, a new one cannot know"
            .into(),
    );
    warnings.push("etcd counts leases in whole seconds, and raises those that are shorter than one and a half elections: 2s is the least by default".into());
    warnings
}

fn parse(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(version: &str) -> usize {
        let settings = crate::url::read("etcd://a,b,c").unwrap();
        warnings(&settings, version).len() - 2
    }

    #[test]
    fn what_each_version_gets_wrong_is_said() {
        let expected = [
            ("3.4.23", 4),
            ("3.4.36", 2),
            ("3.4.38", 0),
            ("3.5.22", 1),
            ("3.5.23", 0),
            ("3.6.1", 2),
            ("3.7.0", 0),
            ("2.3.8", 1),
            ("x", 1),
        ];
        for (version, count) in expected {
            assert_eq!(faults(version), count, "{version}");
        }
    }
}
