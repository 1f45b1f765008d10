//! Marks of unfinished work, and paths of one machine, which must not stay in a file.

use super::source::{Line, Source, is_of_a_word};
use super::{Finding, finding};

/// Macros of unfinished or inspected code.
const MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
/// Marks of unfinished work in comments.
const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];
/// Folders whose content differs between machines.
const MACHINE_FOLDERS: [&str; 4] = ["home", "root", "work", "tmp"];

/// Checks a Rust file. A quoted text may have any word, but no path.
pub(super) fn in_source(path: &str, source: &Source) -> Vec<Finding> {
    let is_of_tests = path.split('/').any(|part| part == "tests" || part == "tests.rs");
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(&source.lines) {
        let Line { text, code, comment, is_test } = line;
        let macros = MACROS.into_iter().filter(|word| has_word(code, word));
        findings.extend(macros.map(|word| unfinished(number, word)));
        let marks =
            MARKS.into_iter().filter(|word| has_word(comment, word) || has_word(code, word));
        findings.extend(marks.map(|word| unfinished(number, word)));
        if !is_of_tests && !is_test {
            findings.extend(machine_path(number, text));
        }
    }
    findings
}

/// Checks a page.
pub(super) fn in_page(text: &str) -> Vec<Finding> {
    let paths = (1..).zip(text.lines()).filter_map(|(number, line)| machine_path(number, line));
    left_over(text).into_iter().chain(paths).collect()
}

/// Checks any other text for marks of unfinished work.
pub(super) fn left_over(text: &str) -> Vec<Finding> {
    let marked = |(number, line)| {
        let marks = MARKS.into_iter().filter(move |word| has_word(line, word));
        marks.map(move |word| unfinished(number, word))
    };
    (1..).zip(text.lines()).flat_map(marked).collect()
}

/// Whether `text` has `word`, and not only as a part of a longer word.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let goes_on = word.ends_with(is_of_a_word) && after.is_some_and(is_of_a_word);
        !goes_on && !before.is_some_and(is_of_a_word)
    })
}

fn unfinished(line: usize, word: &str) -> Finding {
    finding(line, format!("`{word}` marks unfinished work: finish it"))
}

fn machine_path(line: usize, text: &str) -> Option<Finding> {
    let folder = MACHINE_FOLDERS.into_iter().find(|name| {
        let path = format!("/{name}/");
        let starts_there =
            |at: usize| !text[..at].ends_with(|it| is_of_a_word(it) || "-.".contains(it));
        text.match_indices(&path).any(|(at, _)| starts_there(at))
    })?;
    Some(finding(line, format!("a path in `/{folder}` exists on one machine only: remove it")))
}

#[cfg(test)]
mod tests {
    use super::{Source, has_word, in_page, in_source, left_over};

    fn lines(path: &str, text: &str) -> Vec<usize> {
        in_source(path, &Source::read(text)).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn unfinished_work_is_found() {
        assert_eq!(lines("a.rs", "todo!();\ndbg!(b);\nunimplemented!(\"c\")"), [1, 2, 3]);
        assert_eq!(lines("a.rs", "// TODO: b\nc(); // FIXME\n/* XXX */"), [1, 2, 3]);
        assert_eq!(left_over("a = 1\n# TODO b\n").len(), 1);
    }

    #[test]
    fn names_and_quotes_of_marks_are_allowed() {
        assert!(lines("a.rs", "b(\"todo!\"); my_dbg!(c); // A `dbg!` here.").is_empty());
        assert!(lines("a.rs", "const TODOS: u8 = 1; // XXXX").is_empty());
        assert!(left_over("mktemp -d XXXXXX").is_empty());
    }

    #[test]
    fn paths_of_one_machine_are_found_outside_of_tests() {
        assert_eq!(lines("a/src/b.rs", "c(\"/tmp/d\");\n// In /home/e."), [1, 2]);
        assert!(lines("a/tests/b.rs", "c(\"/tmp/d\");").is_empty());
        assert!(lines("a/src/b.rs", "#[cfg(test)]\nmod tests {\n c(\"/tmp/d\");\n}").is_empty());
        assert_eq!(in_page("Go to `/root/a`.\nSee file:///tmp/b.\n").len(), 2);
        assert!(in_page("See https://example.org/work/b, and `target/tmp/c`.").is_empty());
    }

    #[test]
    fn a_word_is_a_whole_word() {
        assert!(has_word("a unsafe{", "unsafe"));
        assert!(has_word("(dbg!(x))", "dbg!"));
        assert!(!has_word("unsafe_code", "unsafe"));
        assert!(!has_word("my_dbg!(x)", "dbg!"));
    }
}
