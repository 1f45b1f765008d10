//! One JSON object a line, with its fields in the documented order.

use std::fmt::{Display, Write as _};

use serde::Serialize;

use crate::screen::is_unprintable;

/// A writer of one object.
pub(crate) struct Object(String);

impl Object {
    pub(crate) fn new() -> Self {
        Self("{".into())
    }

    /// Adds a text, escaped.
    pub(crate) fn text(mut self, name: &str, value: &str) -> Self {
        self.name(name);
        self.0.push_str(&json(value));
        self
    }

    /// Adds a number, `true` or `false`.
    pub(crate) fn plain(mut self, name: &str, value: impl Display) -> Self {
        self.name(name);
        write!(self.0, "{value}").expect("writing to a string cannot fail");
        self
    }

    /// Adds a number or `null`.
    pub(crate) fn maybe(self, name: &str, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.plain(name, value),
            None => self.plain(name, "null"),
        }
    }

    /// Adds a text or `null`.
    pub(crate) fn maybe_text(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self.plain(name, "null"),
        }
    }

    /// Returns the object with a line feed.
    pub(crate) fn line(mut self) -> String {
        self.0.push_str("}\n");
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push_str(&json(name));
        self.0.push(':');
    }
}

/// Writes a value as JSON. Characters that a terminal may act on, and those that end a line in
/// JavaScript, are escaped; outside of texts, JSON has none of them.
fn json(value: &(impl Serialize + ?Sized)) -> String {
    let text = serde_json::to_string(value).expect("texts and numbers can be written");
    let mut json = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_unprintable(letter) {
            write!(json, "\\u{:04x}", u32::from(letter)).expect("writing to a string cannot fail");
        } else {
            json.push(letter);
        }
    }
    json
}

/// Writes a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> String {
    json(value) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_one_line() {
        let object = Object::new()
            .text("key", "a\"b\\c\n\u{1}ü\u{2028}\u{9b}\u{202e}")
            .plain("token", 7)
            .maybe("expires_in_ms", None)
            .maybe_text("user", None)
            .plain("allowed", true);
        assert_eq!(
            object.line(),
            "{\"key\":\"a\\\"b\\\\c\\n\\u0001ü\\u2028\\u009b\\u202e\",\"token\":7,\"expires_in_ms\":null,\"user\":null,\"allowed\":true}\n"
        );
    }
}
