//! Checks of a Rust file: it starts with `//!`, has no `unsafe`, and gives a reason for
//! `#[ignore]`.

use super::source::Source;
use super::words::has_word;
use super::{Finding, finding};

/// Checks one file.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let mut findings = Vec::new();
    if name != "build.rs" && !starts_with_documentation(source) {
        findings.push(finding(1, "the file does not start with `//!`: describe the module"));
    }
    if name == "mod.rs" {
        findings.push(finding(1, "`mod.rs` is not used here: name the file after the module"));
    }
    for (number, line) in (1..).zip(&source.lines) {
        if has_word(&line.code, "unsafe") {
            findings.push(finding(number, "`unsafe` is not used here: find a safe way"));
        }
        let attribute: String = line.code.split_whitespace().collect();
        if attribute.contains("#[ignore]") {
            findings
                .push(finding(number, "the ignored test has no reason: write `#[ignore = \"…\"]`"));
        }
    }
    findings
}

fn starts_with_documentation(source: &Source) -> bool {
    let opening = source.lines.first().and_then(|line| line.whole_comment());
    opening.is_some_and(|(marker, text)| marker == "//!" && !text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Source, check};

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(path, &Source::read(text)).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn a_file_starts_with_documentation() {
        assert!(lines("a/src/b.rs", "//! A lock\n//! is a line.\n\nfn c() {}").is_empty());
        assert_eq!(lines("a/src/b.rs", "//!\n//! A lock.\n\nfn c() {}"), [1]);
        assert_eq!(lines("a/src/b.rs", "// A comment.\nfn c() {}"), [1]);
        assert_eq!(lines("a/src/b.rs", ""), [1]);
        assert!(lines("a/build.rs", "fn main() {}").is_empty());
    }

    #[test]
    fn modules_are_named_by_their_files() {
        assert_eq!(lines("a/src/b/mod.rs", "//! A word.\n"), [1]);
        assert!(lines("a/src/amod.rs", "//! A word.\n").is_empty());
    }

    #[test]
    fn an_ignored_test_needs_a_reason() {
        assert_eq!(lines("a.rs", "//! A word.\n#[ignore]\nfn b() {}"), [2]);
        assert!(lines("a.rs", "//! A word.\n#[ignore = \"slow\"]\nfn b() {}").is_empty());
    }

    #[test]
    fn unsafe_code_is_found() {
        assert_eq!(lines("a.rs", "//! A word.\nfn b() { unsafe { c() } }"), [2]);
        assert!(
            lines("a.rs", "//! No unsafe.\n#![forbid(unsafe_code)]\nb(\"unsafe\");").is_empty()
        );
    }
}
