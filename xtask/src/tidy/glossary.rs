//! One word for one thing: names that have been given up must not come back, and some belong to one place.
//!
//! The glossary in ARCHITECTURE says what each word means.

use super::source::{Source, is_of_a_word};
use super::{Finding, finding};

/// Words that are part of no name, and what is said instead.
const GIVEN_UP: [(&str, &str); 2] = [("era", "generation"), ("epoch", "generation")];

/// Types that only the files below a folder declare, and what others say instead.
const AT_HOME: [(&str, &str, &str); 6] = [
    ("Book", "engines/file/", "a roster, a ledger, an attempt"),
    ("Place", "core/", "an address, if it is a server's"),
    ("Seen", "core/", "a snapshot, a look, an answer"),
    ("Host", "core/", "a server, if it is a machine"),
    ("Bells", "core/", "a fifo, signals, a mailbox"),
    ("Fence", "fences/", "`Fencing`, if it is what a profile says of tokens"),
];

/// Checks the names in a Rust file.
pub(super) fn check(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(&source.lines) {
        let names: Vec<&str> =
            line.code.split(|it| !is_of_a_word(it)).filter(|name| !name.is_empty()).collect();
        for (word, instead) in GIVEN_UP {
            if names.iter().any(|name| parts(name).iter().any(|part| part == word)) {
                findings.push(finding(
                    number,
                    format!("`{word}` is no word of this project; say {instead}."),
                ));
            }
        }
        let declared =
            names.windows(2).filter(|pair| ["struct", "enum", "trait", "type"].contains(&pair[0]));
        for name in declared.map(|pair| pair[1]) {
            let elsewhere =
                AT_HOME.iter().find(|(word, home, _)| *word == name && !path.starts_with(home));
            findings.extend(elsewhere.map(|(word, home, instead)| {
                finding(number, format!("`{word}` is a word of {home}; this is {instead}."))
            }));
        }
    }
    findings
}

/// The words of which a name is made, in small letters. A name in capitals may be the standard library's.
fn parts(name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for word in name.split('_').filter(|word| word.contains(char::is_lowercase)) {
        for letter in word.chars() {
            if letter.is_uppercase() || parts.is_empty() {
                parts.push(String::new());
            }
            parts.last_mut().expect("there is one").extend(letter.to_lowercase());
        }
        parts.push(String::new());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::{Source, check};

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(path, &Source::read(text)).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn words_that_were_given_up_are_found_in_names() {
        let text = "let era = 1;\nlink.era_of();\nstruct NextEpoch;\nfn last_epoch() {}\n";
        assert_eq!(lines("a.rs", text), [1, 2, 3, 4]);
        assert!(
            lines("a.rs", "// An era.\nlet camera = \"era\";\nlet x = UNIX_EPOCH;\n").is_empty()
        );
    }

    #[test]
    fn types_are_declared_where_they_belong() {
        assert_eq!(lines("core/src/a.rs", "struct Book;\npub struct Place;\n"), [1]);
        assert_eq!(
            lines("engines/file/src/a.rs", "enum Place {}\nstruct Book;\ntype Host = u8;\n"),
            [1, 3]
        );
        assert!(
            lines("a.rs", "use core::Place;\nlet book = Booked;\nstruct Bookshelf;\n").is_empty()
        );
    }
}
