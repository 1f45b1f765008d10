//! The text of a BSON value: how an `_id` and the values of a path are written into the key of a
//! lock, and parsed again.
//!
//! | value | is written |
//! |---|---|
//! | texts | `"shop"`, with a backslash before quotes and backslashes; `'shop'` is read, too |
//! | numbers | `42`, `42L` of 64 bits, `1.5`, `Decimal("1.5")` |
//! | documents and arrays | `{"a": 1, "b": 2}`, `[1, 2]` |
//! | true, false and null | `true`, `false`, `null` |
//! | others | `ObjectId(…)`, `Date(…)` in milliseconds, `Timestamp(…, …)`, `Binary(0, …)` in hex |

use std::fmt::Write as _;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Binary, Bson, DateTime, Decimal128, Document, Timestamp};

/// Maximum depth of nested documents.
const DEPTH_MAX: usize = 32;

/// Returns the text of a value, or `None` if no lock can have it in its name.
pub(crate) fn write(value: &Bson) -> Option<String> {
    let mut text = String::new();
    put(&mut text, value, Form::Exact)?;
    Some(text)
}

/// Returns the text of a value, which is the same for all values that MongoDB treats as the same
/// `_id`: `42`, `42L` and `42.0` are one number.
pub(crate) fn comparable(value: &Bson) -> String {
    let mut text = String::new();
    match put(&mut text, value, Form::Comparable) {
        Some(()) => text,
        None => String::new(),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Exact,
    Comparable,
}

fn put(text: &mut String, value: &Bson, form: Form) -> Option<()> {
    match value {
        Bson::String(it) => put_text(text, it),
        Bson::Int32(it) => write!(text, "{it}").ok()?,
        Bson::Int64(it) if form == Form::Exact => write!(text, "{it}L").ok()?,
        Bson::Int64(it) => write!(text, "{it}").ok()?,
        Bson::Double(it) if form == Form::Comparable && it.fract() == 0.0 => {
            write!(text, "{it:.0}").ok()?;
        }
        Bson::Double(it) => write!(text, "{it:?}").ok()?,
        Bson::Decimal128(it) if form == Form::Comparable => write!(text, "{it}").ok()?,
        Bson::Decimal128(it) => write!(text, "Decimal(\"{it}\")").ok()?,
        Bson::Boolean(it) => write!(text, "{it}").ok()?,
        Bson::Null => text.push_str("null"),
        Bson::ObjectId(it) => write!(text, "ObjectId({})", it.to_hex()).ok()?,
        Bson::DateTime(it) => write!(text, "Date({})", it.timestamp_millis()).ok()?,
        Bson::Timestamp(it) => write!(text, "Timestamp({}, {})", it.time, it.increment).ok()?,
        Bson::Binary(it) => {
            write!(text, "Binary({}, ", u8::from(it.subtype)).ok()?;
            it.bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")).ok()?;
            text.push(')');
        }
        Bson::Document(it) => {
            text.push('{');
            for (at, (name, value)) in it.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                put_text(text, name);
                text.push_str(": ");
                put(text, value, form)?;
            }
            text.push('}');
        }
        Bson::Array(it) => {
            text.push('[');
            for (at, value) in it.iter().enumerate() {
                text.push_str(if at > 0 { ", " } else { "" });
                put(text, value, form)?;
            }
            text.push(']');
        }
        _ => return None,
    }
    Some(())
}

fn put_text(text: &mut String, it: &str) {
    text.push('"');
    for letter in it.chars() {
        if matches!(letter, '"' | '\\') {
            text.push('\\');
        }
        text.push(letter);
    }
    text.push('"');
}

/// Parses values from the beginning of a text.
pub(crate) struct TextReader<'a> {
    pub(crate) rest: &'a str,
}

impl TextReader<'_> {
    /// Skips blanks, and `sign` if it comes next.
    pub(crate) fn take(&mut self, sign: &str) -> Option<()> {
        let rest = self.rest.trim_start_matches(' ').strip_prefix(sign)?;
        self.rest = rest;
        Some(())
    }

    /// Parses the next value.
    pub(crate) fn value(&mut self) -> Option<Bson> {
        self.value_in(0)
    }

    fn value_in(&mut self, depth: usize) -> Option<Bson> {
        self.rest = self.rest.trim_start_matches(' ');
        match self.rest.chars().next()? {
            _ if depth > DEPTH_MAX => None,
            '"' | '\'' => self.text().map(Bson::String),
            '{' => self.document(depth),
            '[' => self.array(depth),
            _ => self.word(),
        }
    }

    fn text(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let (mut text, mut is_plain) = (String::new(), false);
        for (at, letter) in self.rest.char_indices().skip(1) {
            match letter {
                _ if is_plain => text.push(letter),
                '\\' => {
                    is_plain = true;
                    continue;
                }
                _ if letter == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                _ => text.push(letter),
            }
            is_plain = false;
        }
        None
    }

    fn document(&mut self, depth: usize) -> Option<Bson> {
        self.take("{")?;
        let mut document = Document::new();
        while self.take("}").is_none() {
            if !document.is_empty() {
                self.take(",")?;
            }
            self.rest = self.rest.trim_start_matches(' ');
            let name = self.rest.starts_with(['"', '\'']).then(|| self.text())??;
            self.take(":")?;
            document.insert(name, self.value_in(depth + 1)?);
        }
        Some(Bson::Document(document))
    }

    fn array(&mut self, depth: usize) -> Option<Bson> {
        self.take("[")?;
        let mut array = Vec::new();
        while self.take("]").is_none() {
            if !array.is_empty() {
                self.take(",")?;
            }
            array.push(self.value_in(depth + 1)?);
        }
        Some(Bson::Array(array))
    }

    /// Parses a number, or a name with a value in brackets.
    fn word(&mut self) -> Option<Bson> {
        let is_of_it = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
        let end = self.rest.find(|letter| !is_of_it(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if let Some(inside) = rest.strip_prefix('(') {
            let (inside, rest) = inside.split_once(')')?;
            self.rest = rest;
            return named(word, inside);
        }
        self.rest = rest;
        match word {
            "true" => Some(Bson::Boolean(true)),
            "false" => Some(Bson::Boolean(false)),
            "null" => Some(Bson::Null),
            _ => number(word),
        }
    }
}

fn number(word: &str) -> Option<Bson> {
    if let Some(word) = word.strip_suffix('L') {
        return word.parse().ok().map(Bson::Int64);
    }
    let small = word.parse().ok().map(Bson::Int32);
    let large = || word.parse().ok().map(Bson::Int64);
    small.or_else(large).or_else(|| word.parse().ok().map(Bson::Double))
}

fn named(name: &str, inside: &str) -> Option<Bson> {
    let two = || inside.split_once(", ");
    Some(match name {
        "ObjectId" => Bson::ObjectId(ObjectId::parse_str(inside).ok()?),
        "Date" => Bson::DateTime(DateTime::from_millis(inside.parse().ok()?)),
        "Timestamp" => {
            let (time, increment) = two()?;
            let (time, increment) = (time.parse().ok()?, increment.parse().ok()?);
            Bson::Timestamp(Timestamp { time, increment })
        }
        "Decimal" => {
            let number = inside.strip_prefix('"')?.strip_suffix('"')?;
            Bson::Decimal128(number.parse::<Decimal128>().ok()?)
        }
        "Binary" => {
            let (subtype, hex) = two()?;
            let pairs = hex.as_bytes().chunks(2);
            let byte = |pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            let bytes = pairs.map(byte).collect::<Option<_>>()?;
            Bson::Binary(Binary { subtype: subtype.parse::<u8>().ok()?.into(), bytes })
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{bson, doc, spec::BinarySubtype};

    use super::*;

    #[test]
    fn every_value_comes_back_as_it_was_written() {
        let bytes = Binary { subtype: BinarySubtype::Uuid, bytes: vec![0, 255, 16] };
        let values = [
            bson!(42),
            bson!(-1_i64),
            bson!(i64::MAX),
            bson!(1.5),
            bson!(42.0),
            bson!(1e300),
            bson!(f64::INFINITY),
            bson!(""),
            bson!("it's \"so\" \\ \0 {}[](), é🔒"),
            bson!(true),
            Bson::Null,
            Bson::ObjectId(ObjectId::new()),
            Bson::DateTime(DateTime::from_millis(-1)),
            Bson::Timestamp(Timestamp { time: 1, increment: 2 }),
            Bson::Binary(bytes),
            Bson::Decimal128("1.5".parse().unwrap()),
            bson!({ "b": [1, { "c": null }], "a \"": {} }),
        ];
        for value in values {
            let text = write(&value).unwrap();
            let mut reader = TextReader { rest: &text };
            assert_eq!(reader.value(), Some(value), "{text}");
            assert_eq!(reader.rest, "", "{text}");
        }
    }

    #[test]
    fn what_is_no_value_is_none() {
        for text in ["", "x", "{", "{1}", "[1", "\"a", "'a\"", "ObjectId(1)", "Binary(0, zz)", "1x"]
        {
            assert_eq!(TextReader { rest: text }.value(), None, "{text}");
        }
        assert_eq!(write(&Bson::MaxKey), None);
        let deep = "[".repeat(100_000);
        assert_eq!(TextReader { rest: &deep }.value(), None);
    }

    #[test]
    fn numbers_that_are_equal_are_one() {
        let of = |value: Bson| comparable(&value);
        assert_eq!(of(bson!(42)), of(bson!(42_i64)));
        assert_eq!(of(bson!({ "a": 42 })), of(bson!({ "a": 42.0 })));
        assert_ne!(of(bson!(42)), of(bson!("42")));
        assert_ne!(of(Bson::Document(doc! { "a": 1, "b": 1 })), of(bson!({ "b": 1, "a": 1 })));
    }
}
