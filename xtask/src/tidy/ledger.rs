//! The ledger of mechanisms: each row names a test that exists.

use super::{Finding, finding};

/// The page with the tables.
pub(super) const PAGE: &str = "engines/LEDGER.md";
/// The column with the tests.
const COLUMN: usize = 4;

/// Checks the rows of the ledger against the sources, which are paths and texts.
pub(super) fn check(page: &str, sources: &[(&str, String)]) -> Vec<Finding> {
    let rows = (1..).zip(page.lines()).filter(|(_, line)| line.starts_with("| "));
    let cell = |(number, line): (usize, &str)| {
        let cell = line.split(" | ").nth(COLUMN - 1)?.to_owned();
        Some((number, cell))
    };
    let heads = |cell: &str| matches!(cell, "test" | "guarded by");
    let cells = rows.filter_map(cell).filter(|(_, cell)| !heads(cell));
    cells.flat_map(|(number, cell)| in_cell(number, &cell, sources)).collect()
}

fn in_cell(number: usize, cell: &str, sources: &[(&str, String)]) -> Vec<Finding> {
    let is_sentence = ["none here", "the same", "the conformance suite"];
    let tests: Vec<&str> = cell.split('`').skip(1).step_by(2).collect();
    if tests.is_empty() && !is_sentence.iter().any(|it| cell.starts_with(it)) {
        return vec![finding(number, "this mechanism has no test: name one, or say why not")];
    }
    // The name of the test's binary may stand before it.
    let tests = tests.into_iter().map(|test| test.rsplit(' ').next().unwrap_or(test));
    let absent = tests.filter(|test| !exists(test, sources));
    absent
        .map(|test| finding(number, format!("there is no test `{test}`: correct the row")))
        .collect()
}

/// Whether a source has the test `module::name`, or is the module of `module::*`.
fn exists(test: &str, sources: &[(&str, String)]) -> bool {
    let (module, name) = test.rsplit_once("::").unwrap_or(("", test));
    if matches!(name, "*" | "tests") {
        return sources.iter().any(|(path, _)| path.ends_with(&format!("/{module}.rs")));
    }
    if name.contains('/') {
        return sources.iter().any(|(path, _)| path.ends_with(name));
    }
    let functions = ["(", "<"].map(|after| format!("fn {name}{after}"));
    sources.iter().any(|(_, text)| functions.iter().any(|function| text.contains(function)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_test_or_with_an_absent_one_is_found() {
        let sources = [("engines/a/tests/faults/lies.rs", "async fn it_holds() {}".to_owned())];
        let found = |cell: &str| {
            let page =
                format!("| a | 1 | with | test | who |\n|---|\n| a | 1 | b | {cell} | who |\n");
            check(&page, &sources).into_iter().map(|it| it.line).collect::<Vec<_>>()
        };
        for cell in ["`lies::it_holds`", "`faults lies::*`", "the same", "none here: why"] {
            assert!(found(cell).is_empty(), "{cell}");
        }
        for cell in ["–", "`lies::it_held`", "`truths::*`"] {
            assert_eq!(found(cell), [3], "{cell}");
        }
    }
}
