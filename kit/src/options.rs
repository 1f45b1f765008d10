//! The options of a URL: which there are, how their values are read, and what is said of a wrong one.
//!
//! A value that is wrong is told by the name of its option and never repeated, because a sign that is not escaped can
//! make a password look like a value.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tenure_core::{Error, Result};

use crate::duration;
use crate::secret::Secret;

/// A name that differs from a known one by so many letters is a typing error.
const TYPING_ERRORS_MAX: usize = 2;

/// An option that the URLs of an engine can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownOption {
    /// Its name.
    pub name: &'static str,
    /// What stands behind the sign `=`: `TIME`, `N`, `on`.
    pub value: &'static str,
    /// A sentence on what it does.
    pub about: &'static str,
    /// Whether its value is the path of a file on this machine.
    pub is_file: bool,
}

impl KnownOption {
    /// An option whose value is no file.
    pub const fn new(name: &'static str, value: &'static str, about: &'static str) -> Self {
        Self { name, value, about, is_file: false }
    }

    /// An option whose value is the path of a file.
    pub const fn file(name: &'static str, about: &'static str) -> Self {
        Self { name, value: "FILE", about, is_file: true }
    }
}

/// A part of a URL that is to be read as something.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    /// What it is of, as a sentence names it.
    of: String,
    text: String,
}

impl Value {
    /// The text that was given for this: "the database", for example.
    pub fn new(of: impl Into<String>, text: impl Into<String>) -> Self {
        Self { of: of.into(), text: text.into() }
    }

    /// The error for a value that is not what it must be: "takes a time".
    pub fn wrong(&self, takes: &str) -> Error {
        Error::invalid(format!("{} takes {takes}", self.of))
    }

    /// Any text.
    pub fn text(self) -> String {
        self.text
    }

    /// A text that cannot be printed.
    pub fn secret(self) -> Secret {
        Secret::new(self.text)
    }

    /// The path of a file.
    pub fn file(self) -> Result<PathBuf> {
        if self.text.is_empty() {
            return Err(self.wrong("the path of a file"));
        }
        let path = PathBuf::from(&self.text);
        if begins_at_home(&path) {
            return Err(self.wrong(
                "the path of a file, and `~` is a home only where a shell expands it: write $HOME/PATH, or ./~ for what has that name",
            ));
        }
        Ok(path)
    }

    /// A duration within these bounds.
    pub fn time(&self, within: RangeInclusive<Duration>) -> Result<Duration> {
        let (least, most) = (duration::brief(*within.start()), duration::brief(*within.end()));
        let time = duration::parse(&self.text).ok().filter(|time| within.contains(time));
        time.ok_or_else(|| {
            self.wrong(&format!("a time from {least} to {most}, such as 500ms, 2s or 1m"))
        })
    }

    /// A whole number within these bounds.
    pub fn number<N>(&self, within: RangeInclusive<N>) -> Result<N>
    where
        N: FromStr + PartialOrd + Display,
    {
        let number = self.text.parse().ok().filter(|number| within.contains(number));
        number.ok_or_else(|| {
            self.wrong(&format!("a number from {} to {}", within.start(), within.end()))
        })
    }

    /// `on` or `off`.
    pub fn switch(&self) -> Result<bool> {
        self.one_of(&[("on", true), ("off", false)])
    }

    /// What the word stands for.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        let found = words.iter().find(|(word, _)| *word == self.text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(&listed(&words, "or"))
        })
    }
}

/// Whether a shell would have put a home in the place of what a path begins with.
pub(crate) fn begins_at_home(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"~")
}

/// Finds an option among the known ones.
pub(crate) fn find(
    scheme: &str,
    name: &str,
    known: &'static [KnownOption],
) -> Result<&'static KnownOption> {
    if let Some(found) = known.iter().find(|option| option.name == name) {
        return Ok(found);
    }
    if known.is_empty() {
        return Err(Error::invalid(format!(
            "a URL of `{scheme}:` has no options: leave out the question mark and what stands behind it"
        )));
    }
    let names: Vec<&str> = known.iter().map(|option| option.name).collect();
    let there_are = listed(&names, "and");
    // A name that is like none of the known ones may be a part of a password, and is not repeated.
    Err(Error::invalid(match nearest(name, names) {
        Some(near) => format!(
            "`{name}` is no option of `{scheme}:` (did you mean `{near}`?): there are {there_are}"
        ),
        None => {
            format!("the URL has an option that `{scheme}:` does not have: there are {there_are}")
        }
    }))
}

/// The name that was probably meant, if one is like this.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = |other: &str| distance(name, other);
    let near = known.into_iter().min_by_key(|other| far(other))?;
    (far(near) <= TYPING_ERRORS_MAX.min(near.chars().count() / 2)).then_some(near)
}

/// Names as a sentence lists them.
pub fn listed(names: &[&str], joined_by: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => {
            format!("{} {joined_by} {last}", rest.join(", "))
        }
        _ => quoted.concat(),
    }
}

/// How many letters must be put in, left out, changed or swapped to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let change = rows[i][j] + usize::from(a != b);
            let mut least = change.min(rows[i][j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_probably_meant_is_found() {
        let known = ["prefix", "timeout", "connect_timeout", "tls", "ca"];
        for (typed, meant) in [
            ("timout", Some("timeout")),
            ("tiemout", Some("timeout")),
            ("prefixes", Some("prefix")),
            ("tsl", Some("tls")),
            ("ttl", None),
            ("c", Some("ca")),
            ("hunter2", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), meant, "{typed}");
        }
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(listed(&[], "and"), "");
        assert_eq!(listed(&["a"], "and"), "`a`");
        assert_eq!(listed(&["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }
}
