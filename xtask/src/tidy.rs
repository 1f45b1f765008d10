//! Tidiness is what no compiler checks: rules on the files that git knows, a sentence for each breach.

mod links;
mod manifests;
mod rust;
mod source;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::process::{Result, read};
use source::Source;

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    sentence: String,
}

/// A breach in this line, and what to do about it.
fn finding(line: usize, sentence: impl Into<String>) -> Finding {
    Finding { line, sentence: sentence.into() }
}

/// The licences that the manifests promise.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// `cargo xtask tidy`: prints every breach, and counts them.
pub(crate) fn check() -> Result<String> {
    let files = tracked()?;
    let mut findings = 0_usize;
    let texts = texts(&files)?;
    for (path, text) in &texts {
        for Finding { line, sentence } in in_text(path, text, &files) {
            println!("{path}:{line}: {sentence}");
            findings += 1;
        }
    }
    for path in missing(&files) {
        println!("{path}:1: This file is missing; write it.");
        findings += 1;
    }
    match findings {
        0 => Ok(format!("{} files are tidy", files.len())),
        1 => Err("1 finding.".into()),
        _ => Err(format!("{findings} findings.")),
    }
}

/// What git knows, and what it would be told with the next `git add`.
fn tracked() -> Result<BTreeSet<String>> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = read(&mut git)?;
    let there = |name: &&str| !name.is_empty() && Path::new(name).is_file();
    Ok(names.split('\0').filter(there).map(String::from).collect())
}

/// All files but pictures, which no rule is about.
fn texts(files: &BTreeSet<String>) -> Result<Vec<(&str, String)>> {
    let mut texts = Vec::new();
    for path in files {
        let bytes = fs::read(path).map_err(|error| format!("{path} cannot be read: {error}."))?;
        texts.extend(String::from_utf8(bytes).ok().map(|text| (path.as_str(), text)));
    }
    Ok(texts)
}

/// Which rules are for which files.
fn in_text(path: &str, text: &str, files: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let extension = Path::new(path).extension().and_then(|it| it.to_str()).unwrap_or_default();
    match extension {
        "rs" => {
            let source = Source::read(text);
            findings.extend(rust::check(path, &source));
            findings.extend(words::in_source(path, &source));
        }
        "md" => {
            findings.extend(words::in_page(text));
            findings.extend(links::check(path, text, files));
        }
        "toml" if path.ends_with("/Cargo.toml") => {
            findings.extend(words::left_over(text));
            findings.extend(manifests::check(text));
        }
        _ if LICENCES.contains(&path) => {}
        _ => findings.extend(words::left_over(text)),
    }
    findings
}

/// Files that must be there: the licences, and a page for each engine.
fn missing(files: &BTreeSet<String>) -> Vec<String> {
    let engines = files.iter().filter_map(|path| {
        let engine = path.strip_prefix("engines/")?.strip_suffix("/Cargo.toml")?;
        Some(format!("engines/{engine}/README.md"))
    });
    let needed = LICENCES.iter().map(|&name| String::from(name)).chain(engines);
    needed.filter(|path| !files.contains(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::{BTreeSet, in_text, missing};

    fn files(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.into()).collect()
    }

    #[test]
    fn licences_and_the_pages_of_engines_must_be_there() {
        let all = files(&[
            "LICENSE-APACHE",
            "LICENSE-MIT",
            "engines/file/Cargo.toml",
            "engines/file/README.md",
        ]);
        assert!(missing(&all).is_empty());
        let few = files(&["LICENSE-MIT", "engines/file/Cargo.toml"]);
        assert_eq!(missing(&few), ["LICENSE-APACHE", "engines/file/README.md"]);
    }

    #[test]
    fn each_kind_of_file_meets_its_rules() {
        let none = files(&[]);
        let found = |path: &str, text: &str| in_text(path, text, &none).len();
        assert_eq!(found("a/src/b.rs", "//! A word.\nfn c() { dbg!(1); }\n"), 1);
        assert_eq!(found("a/b.md", "[gone](c.md), see /tmp/d, TODO\n"), 3);
        assert_eq!(found("a/Cargo.toml", "# TODO\n[package]\n"), 5);
        assert_eq!(found(".ci/run", "# FIXME\n"), 1);
        assert_eq!(found("LICENSE-MIT", "TODO\n"), 0);
    }
}
