//! Secrets: texts that `Debug` does not print, and that are redacted from messages of others.

use std::fmt;

/// Number of consecutive bytes of a secret that give it away: a server may repeat a part of it.
const HINT_BYTES: usize = 4;

/// A password or another text that must not appear in a log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `text` contains a part of the secret, in any case, with its white space squeezed, or
    /// with its bytes escaped.
    pub fn shows_in(&self, text: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let text = text.to_lowercase();
        let plain = self.0.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
        let escaped: String = self.0.bytes().map(escape).collect::<String>().to_lowercase();
        [plain, escaped].iter().any(|secret| {
            let window = HINT_BYTES.min(secret.len()).max(1);
            secret.as_bytes().windows(window).any(|part| contains(text.as_bytes(), part))
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// Returns the text, or `None` if it contains a part of a secret.
pub fn redact<'a>(mut secrets: impl Iterator<Item = &'a Secret>, text: String) -> Option<String> {
    (!secrets.any(|secret| secret.shows_in(&text))).then_some(text)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn escape(byte: u8) -> String {
    match byte {
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_cannot_be_printed() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "…");
    }

    #[test]
    fn no_part_of_a_secret_is_let_through_in_any_form() {
        for (secret, text) in [
            ("s3cret", "no s3cret here"),
            ("s3cret", "it begins with s3cr"),
            ("s3cret", "it ends with CRET"),
            ("ab", "ab"),
            ("a  b", "a b"),
            ("äö", "\\xc3\\xa4\\xc3\\xb6"),
        ] {
            assert_eq!(redact([&Secret::new(secret)].into_iter(), text.to_owned()), None, "{text}");
        }
        for (secret, text) in [("s3cret", "the index is out of range"), ("", "anything")] {
            let passed = redact([&Secret::new(secret)].into_iter(), text.to_owned());
            assert_eq!(passed.as_deref(), Some(text));
        }
    }
}
