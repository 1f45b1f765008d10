//! The options of a URL: the known ones, how their values are read, and the errors for wrong ones.
//!
//! An error names the option and never repeats the value: an unescaped character can make a part of
//! a password look like a value.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tenure_core::{Error, Result};

use crate::duration;
use crate::secret::Secret;

/// The time limits that an engine over a server accepts.
pub const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);

/// Maximum number of wrong letters for which an error suggests a known name.
const TYPING_ERRORS_MAX: usize = 2;

/// An option that the URLs of an engine can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownOption {
    /// The name.
    pub name: &'static str,
    /// The form of the value: `TIME`, `N`, `on`.
    pub value: &'static str,
    /// One sentence on what the option does.
    pub about: &'static str,
    /// Whether the value is the path of a file on this machine.
    pub is_file: bool,
}

impl KnownOption {
    /// Returns an option whose value is not a file.
    pub const fn new(name: &'static str, value: &'static str, about: &'static str) -> Self {
        Self { name, value, about, is_file: false }
    }

    /// Returns an option whose value is the path of a file.
    pub const fn file(name: &'static str, about: &'static str) -> Self {
        Self { name, value: "FILE", about, is_file: true }
    }
}

/// A part of a URL before it is read.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    /// The name that error messages use, such as "the database".
    of: String,
    text: String,
}

impl Value {
    /// Wraps a text. Error messages call it `of`, such as "the database".
    pub fn new(of: impl Into<String>, text: impl Into<String>) -> Self {
        Self { of: of.into(), text: text.into() }
    }

    /// Returns the error for a wrong value. `takes` names right ones: "a time".
    pub fn wrong(&self, takes: &str) -> Error {
        Error::invalid(format!("{} takes {takes}", self.of))
    }

    /// Returns the text as it is.
    pub fn text(self) -> String {
        self.text
    }

    /// Returns the text as a secret.
    pub fn secret(self) -> Secret {
        Secret::new(self.text)
    }

    /// Reads the path of a file.
    ///
    /// # Errors
    ///
    /// The path is empty or begins with `~`, which only a shell expands.
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

    /// Reads a duration.
    ///
    /// # Errors
    ///
    /// The text is not a duration, or the duration is out of bounds.
    pub fn time(&self, within: RangeInclusive<Duration>) -> Result<Duration> {
        bounded(&self.of, duration::parse(&self.text).ok(), within)
    }

    /// Reads a whole number.
    ///
    /// # Errors
    ///
    /// The text is not a number, or the number is out of bounds.
    pub fn number<N>(&self, within: RangeInclusive<N>) -> Result<N>
    where
        N: FromStr + PartialOrd + Display,
    {
        let number = self.text.parse().ok().filter(|number| within.contains(number));
        number.ok_or_else(|| {
            self.wrong(&format!("a number from {} to {}", within.start(), within.end()))
        })
    }

    /// Reads `on` or `off`.
    ///
    /// # Errors
    ///
    /// The text is neither of them.
    pub fn switch(&self) -> Result<bool> {
        self.one_of(&[("on", true), ("off", false)])
    }

    /// Returns the meaning of the text in this table.
    ///
    /// # Errors
    ///
    /// The table does not contain the text.
    pub fn one_of<T: Copy>(&self, words: &[(&str, T)]) -> Result<T> {
        let found = words.iter().find(|(word, _)| *word == self.text);
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.wrong(&listed(&words, "or"))
        })
    }
}

/// Checks a duration that a program gives for an option.
///
/// # Errors
///
/// The duration is not within [`TIMES`].
pub fn checked_time(option: &str, time: Duration) -> Result<Duration> {
    bounded(&format!("`{option}`"), Some(time), TIMES)
}

/// Checks the prefix of all names in a store.
///
/// # Errors
///
/// It is not 1 to 128 letters, digits and the signs `. _ - :`, with slashes between them.
pub fn checked_prefix(prefix: impl Into<String>) -> Result<String> {
    let plain =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '-' | ':');
    let is_name = |part: &str| !part.is_empty() && part.chars().all(plain);
    let prefix = prefix.into();
    if prefix.len() > 128 || !prefix.split('/').all(is_name) {
        return Err(Value::new("`prefix`", prefix)
            .wrong("1 to 128 letters, digits and the signs . _ - :, with slashes between them"));
    }
    Ok(prefix)
}

fn bounded(of: &str, time: Option<Duration>, within: RangeInclusive<Duration>) -> Result<Duration> {
    time.filter(|time| within.contains(time)).ok_or_else(|| {
        let (least, most) = (duration::brief(*within.start()), duration::brief(*within.end()));
        let takes = format!("a time from {least} to {most}, such as 500ms, 2s or 1m");
        Value::new(of, "").wrong(&takes)
    })
}

/// Whether a path begins with `~`, which a shell would have replaced by a home directory.
pub(crate) fn begins_at_home(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().starts_with(b"~")
}

/// Returns the known option of this name.
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
            "a URL of `{scheme}:` has no options: remove the question mark and the text after it"
        )));
    }
    let names: Vec<&str> = known.iter().map(|option| option.name).collect();
    let there_are = listed(&names, "and");
    // A name that is unlike all known ones may be a part of a password, and is not repeated.
    Err(Error::invalid(match nearest(name, names) {
        Some(near) => format!(
            "`{name}` is no option of `{scheme}:` (did you mean `{near}`?): there are {there_are}"
        ),
        None => {
            format!("the URL has an option that `{scheme}:` does not have: there are {there_are}")
        }
    }))
}

/// Returns the known name that is most like `name`, if one is.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = |other: &str| distance(name, other);
    let near = known.into_iter().min_by_key(|other| far(other))?;
    (far(near) <= TYPING_ERRORS_MAX.min(near.chars().count() / 2)).then_some(near)
}

/// Lists names as a sentence does: `a`, `b` and `c`.
pub fn listed(names: &[&str], joined_by: &str) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => {
            format!("{} {joined_by} {last}", rest.join(", "))
        }
        _ => quoted.concat(),
    }
}

/// Returns the Damerau-Levenshtein distance of two words: letters to insert, delete, replace or
/// swap.
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
    fn a_mistyped_name_is_found() {
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
