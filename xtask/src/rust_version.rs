//! Checks that the workspace builds with the `rust-version` that its crates state.

use std::fs;

use crate::metadata::{self, Crate};
use crate::process::{Result, cargo, run, succeeds};

/// Builds with the stated version if it is installed. Otherwise checks that clippy's lint for newer
/// functions is on, and that no dependency needs a newer version.
pub(crate) fn check() -> Result<String> {
    let stated = stated(&metadata::members()?)?;
    let toolchain = format!("+{stated}");
    // Without a download: this must work on a machine without a network.
    let is_here =
        succeeds(cargo([toolchain.as_str(), "--version"]).env("RUSTUP_AUTO_INSTALL", "0"));
    if is_here {
        let call = [toolchain.as_str(), "check", "--workspace", "--all-features"];
        return run(&mut cargo(call)).map(|()| format!("passed by Rust {stated}"));
    }
    let manifest = fs::read_to_string("Cargo.toml")
        .map_err(|error| format!("cannot read Cargo.toml: {error}"))?;
    if !manifest.contains("\nincompatible_msrv = ") {
        return Err("Cargo.toml lacks clippy's lint `incompatible_msrv`: enable it".into());
    }
    let newer = asking_for_more(&metadata::everything()?, &stated);
    if !newer.is_empty() {
        return Err(format!("these need a newer Rust than {stated}: {}", newer.join(", ")));
    }
    Ok(format!(
        "passed; Rust {stated} is not installed here: checked only by clippy's lint `incompatible_msrv` \
         and the `rust-version` of each dependency"
    ))
}

/// The one version that every crate of the workspace states.
fn stated(members: &[Crate]) -> Result<String> {
    let mut found: Option<&str> = None;
    for member in members {
        let Some(version) = member.rust_version.as_deref() else {
            return Err(format!("{} has no `rust-version`: inherit the workspace's", member.name));
        };
        if found.is_some_and(|other| other != version) {
            return Err(format!(
                "{} has a `rust-version` of its own: inherit the workspace's",
                member.name
            ));
        }
        found = Some(version);
    }
    found.map(String::from).ok_or_else(|| "the workspace has no crate".into())
}

fn asking_for_more(crates: &[Crate], stated: &str) -> Vec<String> {
    let asks = |it: &&Crate| it.rust_version.as_deref().is_some_and(|v| parts(v) > parts(stated));
    crates.iter().filter(asks).map(|it| format!("{} {}", it.name, it.version)).collect()
}

/// `1.89` and `1.89.0` are the same.
fn parts(version: &str) -> [u32; 3] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::{asking_for_more, parts, stated};
    use crate::metadata::Crate;

    fn stating(rust_version: Option<&str>) -> Crate {
        Crate {
            name: "a".into(),
            version: "1.0.0".into(),
            features: Vec::new(),
            rust_version: rust_version.map(String::from),
            is_published: true,
        }
    }

    #[test]
    fn a_version_must_be_stated_and_shared() {
        assert_eq!(stated(&[stating(Some("1.89")), stating(Some("1.89"))]), Ok("1.89".into()));
        assert!(stated(&[stating(Some("1.89")), stating(None)]).is_err());
        assert!(stated(&[stating(Some("1.89")), stating(Some("1.90"))]).is_err());
        assert!(stated(&[]).is_err());
    }

    #[test]
    fn a_dependency_that_needs_a_newer_version_is_found() {
        let crates = [stating(None), stating(Some("1.9")), stating(Some("1.89.0"))];
        assert!(asking_for_more(&crates, "1.89").is_empty());
        assert_eq!(asking_for_more(&[stating(Some("1.90"))], "1.89"), ["a 1.0.0"]);
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(parts("1.100") > parts("1.89"));
        assert_eq!(parts("1.89"), parts("1.89.0"));
    }
}
