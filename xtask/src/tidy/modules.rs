//! The table of modules in a `lib.rs` names each module, and nothing else.

use std::collections::BTreeSet;

use super::source::Source;
use super::{Finding, finding};

/// The heads of the first column of such a table.
const HEADS: [&str; 2] = ["file", "module"];

/// Checks the tables of a `lib.rs`, if it has one. The first cell of a row names modules, and other
/// cells may name more.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    if !path.ends_with("src/lib.rs") {
        return Vec::new();
    }
    let rows = rows(source);
    if rows.is_empty() {
        return Vec::new();
    }
    let modules = modules(source);
    let mut findings = Vec::new();
    for (number, cells) in &rows {
        let strangers = cells[0].iter().filter(|name| **name != "lib" && !modules.contains(*name));
        findings.extend(
            strangers.map(|name| {
                finding(*number, format!("there is no module `{name}`: correct the row"))
            }),
        );
    }
    let named: BTreeSet<&str> = rows.iter().flat_map(|(_, cells)| cells.concat()).collect();
    let (last, _) = rows[rows.len() - 1];
    let absent = modules.iter().filter(|name| !named.contains(*name));
    findings
        .extend(absent.map(|name| finding(last, format!("the table lacks the module `{name}`"))));
    findings
}

/// The rows of all tables of modules: the line, and the names in backticks in each cell.
fn rows(source: &Source) -> Vec<(usize, Vec<Vec<&str>>)> {
    let mut rows = Vec::new();
    let mut is_inside = false;
    for (number, line) in (1..).zip(&source.lines) {
        let text =
            line.whole_comment().filter(|(marker, _)| *marker == "//!").map(|(_, text)| text);
        let Some(row) = text.and_then(|text| text.trim().strip_prefix('|')) else {
            is_inside = false;
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        if is_inside && !cells[0].starts_with("---") {
            let names = |cell| str::split(cell, '`').skip(1).step_by(2).collect();
            rows.push((number, cells.into_iter().map(names).collect()));
            continue;
        }
        is_inside |= HEADS.contains(&cells[0]);
    }
    rows
}

/// The modules with files of their own, without those of tests.
fn modules(source: &Source) -> BTreeSet<&str> {
    let product = source.lines.iter().filter(|line| !line.is_test);
    let module = |code| {
        let (visibility, name) = str::trim(code).strip_suffix(';')?.rsplit_once("mod ")?;
        (visibility.is_empty() || visibility.starts_with("pub")).then_some(name)
    };
    product.filter_map(|line| module(&line.code)).collect()
}

#[cfg(test)]
mod tests {
    use super::{Source, check};

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let found = check(path, &Source::read(text)).into_iter();
        found.map(|it| (it.line, it.sentence)).collect()
    }

    #[test]
    fn a_row_without_a_module_and_a_module_without_a_row_are_found() {
        let text = "//! A.\n//!\n//! | file | contents |\n//! |---|---|\n//! | `lib` | all |\n\
                    //! | `a`, `b` | two; `c` is a part |\n\nmod a;\npub mod c;\nmod d;\n\
                    #[cfg(test)]\nmod e;\n";
        let found = found("engines/x/src/lib.rs", text);
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [6, 6]);
        assert!(found[0].1.contains("`b`") && found[1].1.contains("`d`"), "{found:?}");
    }

    #[test]
    fn a_true_table_no_table_and_another_table_are_no_findings() {
        for text in [
            "//! | module | what |\n//! |---|---|\n//! | `a` | it |\n\nmod a;\n",
            "//! | file | contents |\n//! |---|---|\n//! | `a` | it |\n//!\n//! More:\n//!\n\
             //! | file | contents |\n//! |---|---|\n//! | `b` | it |\n\nmod a;\npub(crate) mod b;\n",
            "//! A crate.\n\nmod a;\n",
            "//! | need | type |\n//! |---|---|\n//! | one holder | `Mutex` |\n\nmod a;\n",
        ] {
            assert!(found("a/src/lib.rs", text).is_empty(), "{text}");
        }
        let wrong = "//! | file | contents |\n//! |---|---|\n//! | `b` | it |\n\nmod a;\n";
        assert_eq!(found("a/src/lib.rs", wrong).len(), 2);
        assert!(found("a/src/main.rs", wrong).is_empty());
    }
}
