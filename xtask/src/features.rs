//! Builds each feature alone, since users enable only some of them.

use crate::metadata;
use crate::process::{Result, cargo, run};

/// The features of the command are those of the library with the same names, so a build of both is
/// one of each.
const TOGETHER: [&str; 2] = ["tenure", "tenure-cli"];

/// Checks every crate that has features: without features, and with each feature alone. Clippy of
/// the whole workspace checks them together.
///
/// Clippy with `-D warnings` also reports code that is dead without a feature.
pub(crate) fn check() -> Result<String> {
    let members = metadata::members()?;
    let builds = builds(members.iter().map(|member| (member.name.as_str(), &member.features[..])));
    let mut failed = Vec::new();
    for Build { packages, features } in &builds {
        let named = if features.is_empty() { "none" } else { features };
        println!("{} with {named}", packages.join(" and "));
        let mut call =
            cargo(["clippy", "--quiet", "--no-default-features", "--features", features]);
        call.args(packages.iter().flat_map(|package| ["--package", package]));
        if let Err(error) = run(call.args(["--", "-D", "warnings"])) {
            failed.push(error);
        }
    }
    let count = builds.len();
    if failed.is_empty() { Ok(format!("passed in {count} builds")) } else { Err(failed.join("\n")) }
}

/// Packages with the same features.
#[derive(Debug, PartialEq, Eq)]
struct Build<'a> {
    packages: Vec<&'a str>,
    features: &'a str,
}

fn builds<'a>(members: impl Iterator<Item = (&'a str, &'a [String])>) -> Vec<Build<'a>> {
    let mut builds: Vec<Build<'_>> = Vec::new();
    for (name, all) in members {
        for features in combinations(all) {
            let is_shared = |build: &&mut Build<'_>| {
                build.features == features
                    && TOGETHER.contains(&name)
                    && build.packages.iter().all(|package| TOGETHER.contains(package))
            };
            match builds.iter_mut().find(is_shared) {
                Some(build) => build.packages.push(name),
                None => builds.push(Build { packages: vec![name], features }),
            }
        }
    }
    builds
}

/// No feature, then each alone. Empty for a crate without features.
fn combinations(features: &[String]) -> Vec<&str> {
    if features.is_empty() {
        return Vec::new();
    }
    std::iter::once("").chain(features.iter().map(String::as_str)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Build, builds, combinations};

    #[test]
    fn none_and_each_alone() {
        assert_eq!(combinations(&["a".into(), "b".into()]), ["", "a", "b"]);
        assert!(combinations(&[]).is_empty());
    }

    #[test]
    fn the_library_and_the_command_share_the_builds_of_their_common_features() {
        let [library, command, other] =
            [&["a", "b"][..], &["b", "c"], &["b"]].map(|all| all.iter().map(|it| (*it).into()));
        let [library, command, other]: [Vec<String>; 3] =
            [library.collect(), command.collect(), other.collect()];
        let members = [("tenure", &library[..]), ("tenure-cli", &command), ("tenure-kit", &other)];
        let build =
            |packages: &[&'static str], features| Build { packages: packages.into(), features };
        assert_eq!(
            builds(members.into_iter()),
            [
                build(&["tenure", "tenure-cli"], ""),
                build(&["tenure"], "a"),
                build(&["tenure", "tenure-cli"], "b"),
                build(&["tenure-cli"], "c"),
                build(&["tenure-kit"], ""),
                build(&["tenure-kit"], "b"),
            ]
        );
    }
}
