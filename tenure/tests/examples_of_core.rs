//! Pages of this crate come from `core`, so their examples name what a user of this crate has.

use std::fs;
use std::path::{Path, PathBuf};

/// Files of items that only authors of engines have, from `tenure_core` itself.
const OF_CORE_ALONE: [&str; 5] = [
    "contract/refusal.rs",
    "contract/stale.rs",
    "keeping/errand.rs",
    "keeping/uneven.rs",
    "line/recent.rs",
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
fn no_example_of_a_page_here_names_another_crate() {
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
