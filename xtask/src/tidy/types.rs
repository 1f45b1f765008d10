//! A type name means one thing: two library crates do not define the same one.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, children};
use super::{Finding, finding};

/// Names that several crates may define, each with the reason.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("Settings", "the public settings of each engine, named by its crate: `redis::Settings`"),
    ("StillHeld", "the public condition for a transaction of each store that has them"),
    ("Fence", "the public guarded write of each store"),
    ("HoldIn", "the public extension of guards for a transaction of each database"),
    ("HeldLine", "the public line of `HoldIn`, whose statement is that of its database"),
];

/// A definition: its name, the path of its file, and its line.
type Definition<'a> = (String, &'a str, usize);

/// Checks the types of all library crates. Returns the paths of the findings, too.
pub(super) fn check<'a>(sources: &[(&'a str, String)]) -> Vec<(&'a str, Finding)> {
    let mut defined: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for (name, path, line) in definitions(sources) {
        defined.entry(name).or_default().push((path, line));
    }
    let is_excepted = |name: &str| EXCEPTIONS.iter().any(|(excepted, _)| *excepted == name);
    let mut findings = Vec::new();
    for (name, places) in defined.iter().filter(|(name, _)| !is_excepted(name)) {
        let mut crates = BTreeMap::new();
        for (path, line) in places {
            crates.entry(rank(library(path).unwrap_or_default())).or_insert((*path, *line));
        }
        let Some(((_, first), _)) = crates.pop_first() else { continue };
        findings.extend(crates.into_values().map(|(path, line)| {
            let sentence =
                format!("`{name}` is a type of {first}, too: give one of them another name");
            (path, finding(line, sentence))
        }));
    }
    findings
}

/// The types that the library crates define, without those of tests.
fn definitions<'a>(sources: &[(&'a str, String)]) -> Vec<Definition<'a>> {
    let scanned: Vec<(&str, Source)> = sources
        .iter()
        .filter(|(path, _)| is_rust(path) && library(path).is_some())
        .map(|(path, text)| (*path, Source::read(text)))
        .collect();
    let of_tests: BTreeSet<String> = scanned
        .iter()
        .flat_map(|(path, source)| {
            source.test_modules().map(|module| format!("{}/{module}", children(path)))
        })
        .collect();
    let is_test = |path: &str| {
        of_tests.iter().any(|module| {
            path.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with(['.', '/']))
        })
    };
    let mut all = Vec::new();
    for (path, source) in scanned.iter().filter(|(path, _)| !is_test(path)) {
        for (number, line) in (1..).zip(&source.lines).filter(|(_, line)| !line.is_test) {
            all.extend(defined_name(&line.code).map(|name| (name.to_owned(), *path, number)));
        }
    }
    all
}

fn is_rust(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, kind)| kind == "rs")
}

/// The library crate of a source file.
fn library(path: &str) -> Option<&str> {
    let (folder, _) = path.split_once("/src/")?;
    let is_library = matches!(folder, "core" | "kit" | "serve" | "tenure")
        || ["engines/", "fences/"].iter().any(|group| folder.starts_with(group));
    is_library.then_some(folder)
}

/// The crate that keeps its name comes first: the one that others are built on.
fn rank(library: &str) -> (usize, &str) {
    let order = ["core", "kit", "engines/queue", "engines/record"];
    (order.iter().position(|it| *it == library).unwrap_or(order.len()), library)
}

/// The name of the type that this line of code defines. An indented `type` is the associated type
/// of an implementation.
fn defined_name(code: &str) -> Option<&str> {
    let mut words = code.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let keyword = words.next()?;
    let is_type = keyword == "type" && !code.starts_with(' ');
    if !is_type && !matches!(keyword, "struct" | "enum" | "trait" | "union") {
        return None;
    }
    let name = words.next()?;
    let end = name.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&'static str, &str)]) -> Vec<(&'static str, usize)> {
        let sources: Vec<_> = files.iter().map(|(path, text)| (*path, (*text).into())).collect();
        check(&sources).into_iter().map(|(path, finding)| (path, finding.line)).collect()
    }

    #[test]
    fn a_type_that_two_library_crates_define_is_found() {
        let core = ("core/src/line.rs", "//! A.\npub struct Sample<S> {\n}\n");
        for text in [
            "pub(crate) enum Sample {",
            "trait Sample: Send {",
            "type Sample = u8;",
            "    struct Sample;",
            "pub struct Sample(u8);",
        ] {
            assert_eq!(found(&[("engines/a/src/b.rs", text), core]), [("engines/a/src/b.rs", 1)]);
        }
        let three =
            [core, ("kit/src/a.rs", "enum Sample {"), ("fences/a/src/b.rs", "trait Sample {")];
        assert_eq!(found(&three).len(), 2);
    }

    #[test]
    fn tests_other_crates_and_exceptions_may_use_a_name_again() {
        let core =
            ("core/src/lib.rs", "pub struct Sample;\npub struct Settings;\n#[cfg(test)]\nmod c;");
        for (path, text) in [
            ("core/src/other.rs", "struct Sample;"),
            ("core/src/c.rs", "struct Twin;"),
            ("engines/a/src/b.rs", "#[cfg(test)]\nmod tests {\n    struct Sample;\n}"),
            ("engines/a/src/b.rs", "impl A {\n    type Sample = u8;\n}\n// struct Sample"),
            ("engines/a/src/b.rs", "pub struct Settings;\nstruct Twin;\nstruct Samples;"),
            ("engines/a/tests/b.rs", "struct Sample;"),
            ("cli/src/b.rs", "struct Sample;"),
        ] {
            assert!(found(&[core, (path, text)]).is_empty(), "{path}: {text}");
        }
    }
}
