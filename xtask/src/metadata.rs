//! What cargo knows about the crates of this workspace, and of those that it depends on.

use serde_json::Value;

use crate::process::{Result, cargo, read};

/// One crate, as far as the gates care.
pub(crate) struct Crate {
    pub name: String,
    pub version: String,
    pub features: Vec<String>,
    pub rust_version: Option<String>,
    /// Whether it is one of those that a release publishes.
    pub is_published: bool,
}

/// The crates of this workspace.
pub(crate) fn members() -> Result<Vec<Crate>> {
    crates(&["--no-deps"])
}

/// The crates of this workspace and everything that they depend on, on any platform.
pub(crate) fn everything() -> Result<Vec<Crate>> {
    crates(&["--all-features"])
}

fn crates(arguments: &[&str]) -> Result<Vec<Crate>> {
    let text = read(cargo(["metadata", "--format-version", "1"]).args(arguments))?;
    parse(&text).ok_or_else(|| "`cargo metadata` wrote something unexpected.".into())
}

fn parse(text: &str) -> Option<Vec<Crate>> {
    let all: Value = serde_json::from_str(text).ok()?;
    let packages = all.get("packages")?.as_array()?;
    packages.iter().map(read_crate).collect()
}

fn read_crate(package: &Value) -> Option<Crate> {
    let word = |name: &str| package.get(name)?.as_str().map(String::from);
    Some(Crate {
        name: word("name")?,
        version: word("version")?,
        features: package.get("features")?.as_object()?.keys().cloned().collect(),
        rust_version: word("rust_version"),
        // Nothing said is everywhere, and an empty list is nowhere.
        is_published: package
            .get("publish")
            .and_then(Value::as_array)
            .is_none_or(|at| !at.is_empty()),
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_crate_is_read_with_its_features() {
        let text = r#"{"packages": [
            {"name": "a", "version": "1.2.3", "features": {"x": [], "y": ["x"]}, "rust_version": "1.89"},
            {"name": "b", "version": "0.1.0", "features": {}, "rust_version": null, "publish": []}
        ]}"#;
        let crates = parse(text).expect("this is what cargo writes");
        assert_eq!(crates[0].name, "a");
        assert_eq!(crates[0].features, ["x", "y"]);
        assert_eq!(crates[0].rust_version.as_deref(), Some("1.89"));
        assert_eq!(crates[1].rust_version, None);
        assert_eq!([crates[0].is_published, crates[1].is_published], [true, false]);
    }

    #[test]
    fn anything_else_is_refused() {
        assert!(parse("{}").is_none());
        assert!(parse(r#"{"packages": [{"name": "a"}]}"#).is_none());
    }
}
