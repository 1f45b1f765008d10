//! Documentation of this crate comes from `core`, so its examples import the crate `tenure`.

use std::fs;
use std::path::{Path, PathBuf};

/// Files whose items this crate does not re-export: their examples import `tenure_core`.
const OF_CORE_ALONE: [&str; 8] = [
    "background/backoff.rs",
    "background/releaser.rs",
    "background/spawn.rs",
    "contract/errors.rs",
    "contract/stale.rs",
    "lease/span.rs",
    "toolbox/expiring_map.rs",
    "sync.rs",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_documented_example_imports_another_crate() {
    let core = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
    let mut found = Vec::new();
    sources(&core, &mut found);
    assert!(found.len() > 40, "the sources of core are found");
    for path in found {
        let name = path.strip_prefix(&core).unwrap().to_str().unwrap().to_owned();
        if OF_CORE_ALONE.contains(&&*name) {
            continue;
        }
        for line in fs::read_to_string(&path).unwrap().lines().map(str::trim_start) {
            let is_page = line.starts_with("///") || line.starts_with("//!");
            assert!(!is_page || !line.contains("tenure_core::"), "{name}: {line}");
        }
    }
}
