//! Every public type is shown at work: its documentation has an example that runs.

use std::fs;
use std::path::{Path, PathBuf};

/// The sources of this crate.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The name of the public type that this line begins to define.
fn public_type(line: &str) -> Option<&str> {
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let rest = kinds.into_iter().find_map(|kind| line.strip_prefix(kind))?;
    rest.split(|letter: char| !letter.is_alphanumeric()).next()
}

/// The types of a source whose documentation shows nothing that runs.
fn without_example(source: &str) -> Vec<String> {
    let (mut shown, mut fenced, mut missing) = (false, false, Vec::new());
    for line in source.lines() {
        if line.starts_with("/// ```") {
            shown |= !fenced && line == "/// ```";
            fenced = !fenced;
        } else if let Some(name) = public_type(line) {
            if !shown {
                missing.push(name.to_owned());
            }
            shown = false;
        } else if !line.starts_with("///") && !line.starts_with("#[") {
            shown = false;
        }
    }
    missing
}

#[test]
fn every_public_type_has_an_example_that_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let missing: Vec<String> = sources(&root)
        .iter()
        .flat_map(|path| without_example(&fs::read_to_string(path).expect("it can be read")))
        .collect();
    assert!(missing.is_empty(), "write an example for {}", missing.join(", "));
}

#[test]
fn a_type_without_one_is_found() {
    let bare = "/// A word.\n#[derive(Debug)]\npub struct Bare(u8);\n";
    let drawn = "/// ```text\n/// a picture\n/// ```\npub enum Drawn {}\n";
    let shown =
        "/// A word.\n///\n/// ```\n/// assert!(true);\n/// ```\n#[must_use]\npub trait Shown {}\n";
    assert_eq!(without_example(bare), ["Bare"]);
    assert!(without_example(shown).is_empty());
    assert_eq!(without_example(&format!("{shown}{bare}")), ["Bare"]);
    assert_eq!(without_example(drawn), ["Drawn"], "a picture is no example");
}
