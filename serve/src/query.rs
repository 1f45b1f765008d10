//! Keys in paths, and the fields of a query.

use http::StatusCode;
use percent_encoding::percent_decode_str;
use tenure_core::{KEY_BYTES_MAX, Key};

use crate::reply::HttpRefusal;

/// Keys on a page if the query has no `limit`.
pub(crate) const LIMIT_DEFAULT: usize = 50;
/// Maximum keys on a page.
pub(crate) const LIMIT_MAX: usize = 500;

/// The fields of a query, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Query {
    /// Only keys that begin with this.
    pub(crate) prefix: String,
    /// Only keys behind this one.
    pub(crate) after: Option<String>,
    /// Maximum keys on the page.
    pub(crate) limit: Option<usize>,
    /// The line that the page shows in full.
    pub(crate) key: Option<String>,
}

impl Query {
    /// Reads the query of a URI. The caller names the fields that it knows.
    pub(crate) fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, HttpRefusal> {
        let mut fields = Self::default();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                return Err(bad(match known {
                    [] => "this path has no query".to_owned(),
                    known => {
                        format!("unknown field in the query: it may have {}", known.join(", "))
                    }
                }));
            }
            let value = decode(&value.replace('+', " "))?;
            if value.len() > KEY_BYTES_MAX {
                return Err(bad(format!("`{name}` is longer than {KEY_BYTES_MAX} bytes")));
            }
            match name {
                "prefix" => fields.prefix = value,
                "after" => fields.after = Some(value).filter(|value| !value.is_empty()),
                "key" => fields.key = Some(value).filter(|value| !value.is_empty()),
                _ => {
                    let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                    let sentence = || bad(format!("`limit` must be 1 to {LIMIT_MAX}"));
                    fields.limit = Some(limit.ok_or_else(sentence)?);
                }
            }
        }
        Ok(fields)
    }
}

/// Reads a key from a segment of a path.
pub(crate) fn key(segment: &str) -> Result<Key, HttpRefusal> {
    Ok(Key::new(decode(segment)?)?)
}

fn decode(text: &str) -> Result<String, HttpRefusal> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => Err(bad("the URL is not UTF-8 in percent-encoding")),
    }
}

fn bad(sentence: impl Into<String>) -> HttpRefusal {
    HttpRefusal::new(StatusCode::BAD_REQUEST, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_others_are_refused() {
        let known = ["prefix", "limit", "after"];
        let query = Query::parse(Some("prefix=a%2F%C3%BC+b&limit=7&after=%25&"), &known).unwrap();
        let after = Some("%".into());
        assert_eq!(query, Query { prefix: "a/ü b".into(), after, limit: Some(7), key: None });
        assert_eq!(Query::parse(None, &known).unwrap(), Query::default());
        let long = format!("prefix={}", "x".repeat(KEY_BYTES_MAX + 1));
        for wrong in ["key=a", "limit=0", "limit=501", "limit=x", "prefix=%ff", "a", &long] {
            assert!(Query::parse(Some(wrong), &known).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_one_encoded_segment() {
        assert_eq!(key("a%2Fb%20c+d").unwrap().as_str(), "a/b c+d");
        assert!(key("").is_err());
    }
}
