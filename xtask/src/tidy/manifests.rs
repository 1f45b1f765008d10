//! Checks that a crate inherits its version, edition, Rust version and lints from the workspace.

use super::{Finding, finding};

/// The inherited keys, each with its table.
const INHERITED: [(&str, &str); 4] =
    [("package", "version"), ("package", "edition"), ("package", "rust-version"), ("lints", "")];

/// Checks the manifest of one crate.
pub(super) fn check(text: &str) -> Vec<Finding> {
    let missing = INHERITED.into_iter().filter(|(table, key)| !inherits(text, table, key));
    let describe = |(table, key): (&str, &str)| {
        let line = if key.is_empty() { "workspace = true".into() } else { inheriting(key) };
        finding(1, format!("the manifest does not inherit this: write `{line}` in `[{table}]`"))
    };
    missing.map(describe).collect()
}

fn inherits(text: &str, table: &str, key: &str) -> bool {
    let wanted = if key.is_empty() { "workspace=true".into() } else { inheriting(key) };
    let header = format!("[{table}]");
    let mut here = false;
    text.lines().any(|line| {
        let line = line.split('#').next().unwrap_or(line).trim();
        if line.starts_with('[') {
            here = line == header;
        }
        here && squeezed(line) == squeezed(&wanted)
    })
}

fn inheriting(key: &str) -> String {
    format!("{key}.workspace = true")
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::check;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\n\
        edition.workspace = true # All crates.\nrust-version.workspace=true\n\n[lints]\nworkspace = true\n";

    #[test]
    fn a_crate_that_inherits_is_right() {
        assert!(check(GOOD).is_empty());
    }

    #[test]
    fn a_crate_with_its_own_is_found() {
        let own = GOOD.replace("version.workspace = true\n", "version = \"1.0.0\"\n");
        assert_eq!(check(&own).len(), 1);
        assert_eq!(check(&GOOD.replace("[lints]", "[features]")).len(), 1);
        assert_eq!(check(&GOOD.replace("edition", "# edition")).len(), 1);
        assert_eq!(check("").len(), 4);
    }
}
