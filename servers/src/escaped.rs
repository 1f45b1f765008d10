//! Percent-encodes a part of a URL.

use std::fmt::Write as _;

/// Returns the text with every character percent-encoded that has a meaning in a URL.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn any_text_can_be_a_part_of_a_url() {
        assert_eq!(escaped("a-b_c.~1"), "a-b_c.~1");
        assert_eq!(escaped("a:/@ ü"), "a%3A%2F%40%20%C3%BC");
    }
}
