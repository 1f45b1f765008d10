//! `cargo metadata`: the crates of this workspace and their dependencies.

use serde_json::{Map, Value};

use crate::process::{Result, cargo, read};

/// A crate, with the fields that the gates need.
pub(crate) struct Crate {
    pub name: String,
    pub version: String,
    /// Without those that only list others, such as `default`, and those that only enable features
    /// of dependencies, which are checked there.
    pub features: Vec<String>,
    pub rust_version: Option<String>,
    /// Whether a release publishes it.
    pub is_published: bool,
}

/// The crates of this workspace.
pub(crate) fn members() -> Result<Vec<Crate>> {
    crates(&["--no-deps"])
}

/// The crates of this workspace and all their dependencies, on any platform.
pub(crate) fn everything() -> Result<Vec<Crate>> {
    crates(&["--all-features"])
}

fn crates(arguments: &[&str]) -> Result<Vec<Crate>> {
    let text = read(cargo(["metadata", "--format-version", "1"]).args(arguments))?;
    parse(&text).ok_or_else(|| "cannot parse the output of `cargo metadata`".into())
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
        features: features(package.get("features")?.as_object()?),
        rust_version: word("rust_version"),
        // Without a list: all registries. An empty list: none.
        is_published: package
            .get("publish")
            .and_then(Value::as_array)
            .is_none_or(|at| !at.is_empty()),
    })
}

fn features(all: &Map<String, Value>) -> Vec<String> {
    let is_feature = |name: &Value| name.as_str().is_some_and(|name| all.contains_key(name));
    let is_passed_on = |name: &Value| name.as_str().is_some_and(|name| name.contains('/'));
    let lists_others = |parts: &Vec<Value>| parts.len() > 1 && parts.iter().all(is_feature);
    let passes_on = |parts: &Vec<Value>| {
        parts.iter().any(is_passed_on) && parts.iter().all(|it| is_passed_on(it) || is_feature(it))
    };
    let telling = all.iter().filter(|(_, parts)| {
        !parts.as_array().is_some_and(|parts| lists_others(parts) || passes_on(parts))
    });
    telling.map(|(name, _)| name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_crate_is_read_with_its_features() {
        let text = r#"{"packages": [
            {"name": "a", "version": "1.2.3", "features": {"x": [], "y": ["x"], "default": ["x", "y"], "z": ["x", "b/z"]}, "rust_version": "1.89"},
            {"name": "b", "version": "0.1.0", "features": {}, "rust_version": null, "publish": []}
        ]}"#;
        let crates = parse(text).expect("this is the format of cargo");
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
