//! `cargo xtask tidy`: rules that no compiler checks, over the files that git knows.

mod language;
mod ledger;
mod links;
mod manifests;
mod modules;
mod rust;
pub(crate) mod source;
mod types;
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::process::{Result, read};
use source::Source;

/// A breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    line: usize,
    sentence: String,
}

/// A breach in this line, described in one line with its remedy.
fn finding(line: usize, sentence: impl Into<String>) -> Finding {
    Finding { line, sentence: sentence.into() }
}

/// The licences that the manifests promise.
const LICENCES: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];

/// `cargo xtask tidy`: prints every breach, and counts them.
pub(crate) fn check() -> Result<String> {
    let files = tracked()?;
    let mut findings = 0_usize;
    let mut print = |path: &str, found: &[Finding]| {
        findings += found.len();
        for Finding { line, sentence } in found {
            println!("{path}:{line}: {sentence}");
        }
    };
    let texts = texts(&files)?;
    for (path, text) in &texts {
        print(path, &in_text(path, text, &files));
    }
    if let Some((path, page)) = texts.iter().find(|(path, _)| *path == ledger::PAGE) {
        print(path, &ledger::check(page, &texts));
    }
    for (path, found) in types::check(&texts) {
        print(path, &[found]);
    }
    for path in missing(&files) {
        print(&path, &[finding(1, "this file is missing: write it")]);
    }
    match findings {
        0 => Ok(format!("{} files are tidy", files.len())),
        1 => Err("1 finding".into()),
        _ => Err(format!("{findings} findings")),
    }
}

/// The files of git's index, and those that `git add` would add.
pub(crate) fn tracked() -> Result<BTreeSet<String>> {
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let names = read(&mut git)?;
    let there = |name: &&str| !name.is_empty() && Path::new(name).is_file();
    Ok(names.split('\0').filter(there).map(String::from).collect())
}

/// The texts of all files but pictures.
pub(crate) fn texts(files: &BTreeSet<String>) -> Result<Vec<(&str, String)>> {
    let mut texts = Vec::new();
    for path in files {
        let bytes = fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        texts.extend(String::from_utf8(bytes).ok().map(|text| (path.as_str(), text)));
    }
    Ok(texts)
}

/// Applies the rules for this kind of file.
fn in_text(path: &str, text: &str, files: &BTreeSet<String>) -> Vec<Finding> {
    match Path::new(path).extension().and_then(|it| it.to_str()).unwrap_or_default() {
        "rs" => {
            let source = Source::read(text);
            let language = language::in_source(path, &source);
            let modules = modules::check(path, &source);
            [rust::check(path, &source), words::in_source(path, &source), language, modules]
                .concat()
        }
        "md" => {
            let links = links::check(path, text, files);
            [words::in_page(text), links, language::in_page(text)].concat()
        }
        "toml" if path.ends_with("/Cargo.toml") => {
            [words::left_over(text), manifests::check(text)].concat()
        }
        _ if LICENCES.contains(&path) => Vec::new(),
        _ => words::left_over(text),
    }
}

/// The absent ones of the required files: the licences, and a README for each engine.
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
    fn licences_and_the_pages_of_engines_are_required() {
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
