//! Builds each feature alone, since users enable only some of them.

use crate::metadata;
use crate::process::{Result, cargo, run};

/// Checks every crate that has features: without features, and with each feature alone. Clippy of
/// the whole workspace checks them together.
///
/// Clippy with `-D warnings` also reports code that is dead without a feature.
pub(crate) fn check() -> Result<String> {
    let mut calls = 0_usize;
    let mut failed = Vec::new();
    for member in metadata::members()? {
        for features in combinations(&member.features) {
            println!(
                "{} with {}",
                member.name,
                if features.is_empty() { "none" } else { features }
            );
            let mut call = cargo(["clippy", "--quiet", "--no-default-features", "--package"]);
            call.args([&member.name, "--features", features, "--", "-D", "warnings"]);
            calls += 1;
            if let Err(error) = run(&mut call) {
                failed.push(error);
            }
        }
    }
    if failed.is_empty() { Ok(format!("passed in {calls} builds")) } else { Err(failed.join("\n")) }
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
    use super::combinations;

    #[test]
    fn none_and_each_alone() {
        assert_eq!(combinations(&["a".into(), "b".into()]), ["", "a", "b"]);
        assert!(combinations(&[]).is_empty());
    }
}
