//! Checks that each relative link of a page points to a file of the tree.

use std::collections::BTreeSet;

use super::{Finding, finding};

/// Checks one page, given every file of the tree.
pub(super) fn check(path: &str, text: &str, files: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let targets = targets(line).into_iter().filter(|it| is_relative(it));
        let dead = targets.filter(|it| !is_there(&resolve(path, it), files));
        findings.extend(dead.map(|it| {
            finding(
                number,
                format!("the target of the link `{it}` does not exist: correct or remove it"),
            )
        }));
    }
    findings
}

/// The targets of `[text](target)` and of `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let defined = line.starts_with('[').then(|| line.split_once("]: ")).flatten();
    let defined = defined.and_then(|(_, rest)| rest.split_whitespace().next());
    inline.chain(defined).collect()
}

fn is_relative(target: &str) -> bool {
    let is_url = target.split_once(':').is_some_and(|(scheme, _)| !scheme.contains('/'));
    !target.is_empty() && !target.starts_with('#') && !is_url
}

/// The path of a target from the root of the tree.
fn resolve(page: &str, target: &str) -> String {
    let target = target.split('#').next().unwrap_or(target);
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let from_root = target.starts_with('/');
    let mut path: Vec<&str> = Vec::new();
    for part in (if from_root { "" } else { folder }).split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            // A path that leaves the tree keeps its `..`, so it matches no file.
            ".." if path.last().is_some_and(|it| *it != "..") => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.join("/")
}

fn is_there(path: &str, files: &BTreeSet<String>) -> bool {
    let folder = format!("{path}/");
    path.is_empty() || files.contains(path) || files.iter().any(|file| file.starts_with(&folder))
}

#[cfg(test)]
mod tests {
    use super::check;

    fn lines(text: &str) -> Vec<usize> {
        let files = ["README.md", "a/README.md", "a/src/lib.rs"].map(String::from).into();
        check("a/README.md", text, &files).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn links_to_files_and_folders_are_followed() {
        assert!(lines("[a](src/lib.rs) [b](../README.md#top) [c](./src/) [d](..)\n").is_empty());
        assert!(lines("[a](/a/src/lib.rs \"title\")\n[b]: src/lib.rs\n").is_empty());
    }

    #[test]
    fn links_to_absent_files_are_found() {
        assert_eq!(lines("A word.\n[a](src/gone.rs)\n[b]: gone.md\n"), [2, 3]);
        assert_eq!(lines("[a](../../README.md) [b](lib.rs)\n"), [1, 1]);
    }

    #[test]
    fn other_targets_are_not_checked() {
        assert!(lines("[a](https://b.c/d) [e](#f) [g](mailto:h@i)\n").is_empty());
        assert!(lines("```\n[a](gone.md)\n```\n").is_empty());
        assert_eq!(lines("```\n```\n[a](gone.md)\n"), [3]);
    }
}
