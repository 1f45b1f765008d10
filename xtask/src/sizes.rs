//! `cargo xtask sizes`: lines of code per crate, without tests, comments and blank lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::process::Result;
use crate::tidy::source::{Source, children};
use crate::tidy::{texts, tracked};

/// The lines of each crate and their sum.
pub(crate) fn listing() -> Result<String> {
    let files = tracked()?;
    let texts = texts(&files)?;
    let crates = files.iter().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    let mut listing = String::new();
    let mut total = 0;
    for folder in crates {
        let own = format!("{folder}/src/");
        let of_crate = texts.iter().filter(|(path, _)| path.starts_with(&own));
        let lines = lines_of(&of_crate.map(|(path, text)| (*path, text.as_str())).collect());
        total += lines;
        writeln!(listing, "{lines:>7}  {folder}").expect("a string accepts all text");
    }
    write!(listing, "{total:>7}  in total").expect("a string accepts all text");
    Ok(listing)
}

/// The lines of code of a crate's sources, by their paths.
fn lines_of(texts: &BTreeMap<&str, &str>) -> usize {
    let sources: BTreeMap<&str, Source> =
        texts.iter().map(|(path, text)| (*path, Source::read(text))).collect();
    let modules: BTreeSet<String> = sources
        .iter()
        .flat_map(|(path, source)| {
            let folder = children(path);
            source.test_modules().map(move |module| format!("{folder}/{module}"))
        })
        .collect();
    let is_test = |path: &str| {
        modules.iter().any(|module| {
            path.strip_prefix(module.as_str()).is_some_and(|rest| rest.starts_with(['.', '/']))
        })
    };
    let product = sources.iter().filter(|(path, _)| !is_test(path));
    product
        .map(|(path, source)| match path.rsplit_once('.') {
            Some((_, "rs")) => {
                source.lines.iter().filter(|line| line.has_code() && !line.is_test).count()
            }
            Some((_, "lua")) => texts[path].lines().filter(|line| is_lua(line.trim())).count(),
            _ => 0,
        })
        .sum()
}

fn is_lua(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_comments_and_blank_lines_are_not_counted() {
        let texts = BTreeMap::from([
            (
                "a/src/lib.rs",
                "//! A.\n\nmod b;\n#[cfg(test)]\nmod c;\nconst D: &str = \"\ne\n\";\n",
            ),
            ("a/src/b.rs", "fn b() {} // B.\n#[cfg(test)]\nmod tests {\n    fn f() {}\n}\n"),
            ("a/src/c.rs", "fn not_counted() {}\n"),
            ("a/src/c/g.rs", "fn not_counted() {}\n"),
            ("a/src/cc.rs", "fn h() {}\n"),
            ("a/src/i.lua", "-- I.\n\nreturn 1\n"),
            ("a/src/j.sh", "exit\n"),
        ]);
        assert_eq!(lines_of(&texts), 4 + 1 + 1 + 1);
    }
}
