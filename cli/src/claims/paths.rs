//! The rule of path claims: which keys a claim on paths locks, and in which mode.
//!
//! A claim locks its path exclusively and every ancestor in shared mode:
//!
//! ```text
//! src/db/a.rs   path:src/db/a.rs exclusive   path:src/db, path:src and path:. shared
//! src/db        path:src/db exclusive        path:src and path:. shared
//! ```
//!
//! So a claim on a directory excludes all claims below it, and claims on two files hold side by
//! side. The key `path:.` is the top of the tree.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use crate::acquisition::LockMode;
use crate::screen::quoted;

/// Keys of paths begin with this text.
const PREFIX: &str = "path:";
/// The name of the tree's top in a key. No component of a path has it.
const TOP: &str = ".";
/// Signs of a pattern that a shell has not expanded. Brackets are none: files have them in names.
const PATTERN: [char; 2] = ['*', '?'];

/// The keys of a claim in the order in which they are locked, each with its mode.
pub(crate) type ClaimKeys = BTreeMap<String, LockMode>;

/// A path below the top of a tree. The top itself has no components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreePath(Vec<String>);

impl TreePath {
    /// Reads a path as a user writes it: relative to the directory `here`, or absolute. `top` is
    /// the top of the tree, and `here` lies in it.
    pub(crate) fn read(text: &str, here: &Path, top: &Path) -> Result<Self, String> {
        if text.is_empty() {
            return Err("a path is empty: name a file or a directory".into());
        }
        let shown = quoted(text);
        if text.contains(PATTERN) {
            return Err(format!(
                "{shown} is a pattern, and claims are on paths: name files and directories"
            ));
        }
        let path = here.join(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return Err(format!("{shown} contains `..`: write the path without it"));
        }
        let Ok(below) = path.strip_prefix(top) else {
            return Err(format!(
                "{shown} is outside of {}: a claim is on a path below it",
                top.display()
            ));
        };
        let part = |part: Component<'_>| part.as_os_str().to_str().map(str::to_owned);
        let parts = below.components().map(part).collect::<Option<_>>();
        parts.map(Self).ok_or_else(|| format!("the path to {shown} is not UTF-8"))
    }

    /// The key of this path's first `length` components.
    fn key(&self, length: usize) -> String {
        let path = if length == 0 { TOP.to_owned() } else { self.0[..length].join("/") };
        format!("{PREFIX}{path}")
    }
}

/// Returns the keys of one claim on all these paths. A path that is an ancestor of another one is
/// locked exclusively.
pub(crate) fn keys(paths: &[TreePath]) -> ClaimKeys {
    let mut keys = ClaimKeys::new();
    for path in paths {
        for length in 0..path.0.len() {
            keys.entry(path.key(length)).or_insert(LockMode::Shared);
        }
        keys.insert(path.key(path.0.len()), LockMode::Exclusive);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<TreePath, String> {
        TreePath::read(text, Path::new("/top/src"), Path::new("/top"))
    }

    fn path(text: &str) -> TreePath {
        TreePath::read(text, Path::new("/"), Path::new("/")).unwrap()
    }

    /// Every path of at most three components.
    fn all() -> Vec<TreePath> {
        let mut all = vec![TreePath(Vec::new())];
        let mut last = all.clone();
        for _ in 0..3 {
            let below = |path: &TreePath| {
                ["a", "ab"].map(|name| TreePath([&path.0[..], &[name.to_owned()]].concat()))
            };
            last = last.iter().flat_map(below).collect();
            all.extend(last.clone());
        }
        all
    }

    /// The model: one of them is the other, or contains it.
    fn overlap(one: &TreePath, other: &TreePath) -> bool {
        one.0.starts_with(&other.0) || other.0.starts_with(&one.0)
    }

    /// Whether two claims exclude each other: they have a key that is exclusive in one of them.
    fn conflict(one: &ClaimKeys, other: &ClaimKeys) -> bool {
        one.iter().any(|(key, mode)| {
            let modes = [Some(mode), other.get(key)];
            modes[1].is_some() && modes.contains(&Some(&LockMode::Exclusive))
        })
    }

    #[test]
    fn two_claims_conflict_exactly_if_a_path_of_one_is_or_contains_a_path_of_the_other() {
        let paths = all();
        assert_eq!(paths.len(), 15);
        let pairs: Vec<[TreePath; 2]> = paths
            .iter()
            .flat_map(|one| paths.iter().map(|other| [one.clone(), other.clone()]))
            .collect();
        let claims: Vec<_> = pairs.iter().map(|pair| keys(pair)).collect();
        for (paths, one) in pairs.iter().zip(&claims) {
            for (others, other) in pairs.iter().zip(&claims) {
                let expected =
                    paths.iter().any(|path| others.iter().any(|other| overlap(path, other)));
                assert_eq!(conflict(one, other), expected, "{paths:?} {others:?}");
            }
        }
    }

    #[test]
    fn a_claim_locks_its_path_and_shares_its_ancestors() {
        let modes = |paths: &[&str]| {
            let paths: Vec<_> = paths.iter().map(|text| path(text)).collect();
            let keys = keys(&paths).into_iter();
            keys.map(|(key, mode)| (key, mode == LockMode::Exclusive)).collect::<Vec<_>>()
        };
        let expected = |keys: &[(&str, bool)]| {
            keys.iter().map(|(key, alone)| ((*key).to_owned(), *alone)).collect::<Vec<_>>()
        };
        let file = [("path:.", false), ("path:src", false), ("path:src/a.rs", true)];
        assert_eq!(modes(&["src/a.rs"]), expected(&file));
        assert_eq!(modes(&["src//./a.rs", "src/a.rs/"]), expected(&file));
        let both = [("path:.", false), ("path:src", true), ("path:src/a.rs", true)];
        assert_eq!(modes(&["src/a.rs", "src"]), expected(&both));
        assert_eq!(modes(&["src", "src/a.rs"]), expected(&both));
        assert_eq!(modes(&["."]), expected(&[("path:.", true)]));
    }

    #[test]
    fn a_path_counts_from_the_top_of_the_tree() {
        for text in ["db/a.rs", "./db//a.rs/", "/top/src/db/a.rs"] {
            assert_eq!(read(text), Ok(path("src/db/a.rs")), "{text}");
        }
        assert_eq!(read("."), Ok(path("src")));
        assert_eq!(read("/top"), Ok(path("/")));
        assert_eq!(read("pages/[id].tsx"), Ok(path("src/pages/[id].tsx")));
    }

    #[test]
    fn a_path_that_could_mean_several_is_refused() {
        for (text, with) in [
            ("", "is empty"),
            ("../a", "contains `..`"),
            ("a/../b", "contains `..`"),
            ("*.rs", "is a pattern"),
            ("a?", "is a pattern"),
            ("/to", "is outside of /top"),
            ("/etc/hosts", "is outside of /top"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(with), "{text}: {error}");
        }
    }
}
