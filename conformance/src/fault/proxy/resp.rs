//! Finds the end of a RESP2 or RESP3 message, and parses no more than that needs.

use super::direction::Direction;

/// Maximum length of a message; a longer one passes as bytes.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Maximum length of a line.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of open values.
const VALUES_MAX: usize = 1 << 20;

/// The first bytes of values.
const KINDS: &[u8] = b"+-:_,#($=!*~>%|";
/// The length of an absent value.
const NONE: &[u8] = b"-1";

/// A scanner that resumes where the last bytes ended.
pub(super) struct Scanner {
    at: usize,
    /// Values that the message still lacks.
    values: usize,
}

/// The start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A whole message of this length.
    Whole(usize),
    /// The start of a message.
    Part,
    /// Bytes of another protocol.
    Garbage,
}

/// The type, the first line and the end of a value.
type Line<'a> = (u8, &'a [u8], usize);

impl Default for Scanner {
    fn default() -> Self {
        Self { at: 0, values: 1 }
    }
}

impl Scanner {
    /// Scans these bytes, which must start as in the last call, unless that found a whole message.
    pub(super) fn find(&mut self, direction: Direction, bytes: &[u8]) -> Found {
        let inline = bytes.first().is_some_and(u8::is_ascii_alphabetic);
        let found = match direction {
            Direction::Requests if inline => inline_command(bytes),
            Direction::Requests if bytes.first().is_some_and(|&kind| kind != b'*') => {
                Found::Garbage
            }
            _ => self.find_value(bytes),
        };
        match found {
            Found::Part if bytes.len() > MESSAGE_BYTES_MAX => Found::Garbage,
            Found::Whole(_) => {
                *self = Self::default();
                found
            }
            _ => found,
        }
    }

    fn find_value(&mut self, bytes: &[u8]) -> Found {
        while self.values > 0 {
            let rest = &bytes[self.at..];
            if rest.first().is_some_and(|kind| !KINDS.contains(kind)) {
                return Found::Garbage;
            }
            let (kind, text, end) = match line(rest) {
                Some(line) => line,
                None if rest.len() > LINE_BYTES_MAX => return Found::Garbage,
                None => return Found::Part,
            };
            let Some((more, skipped)) = value(kind, text) else { return Found::Garbage };
            let next = self.at + end + skipped;
            if skipped > 0 && next <= bytes.len() && !bytes[..next].ends_with(b"\r\n") {
                return Found::Garbage;
            }
            if next > bytes.len() {
                return Found::Part;
            }
            self.at = next;
            self.values = self.values - 1 + more;
            if self.values > VALUES_MAX {
                return Found::Garbage;
            }
        }
        Found::Whole(self.at)
    }
}

/// The number of further values, and of bytes after the first line.
fn value(kind: u8, text: &[u8]) -> Option<(usize, usize)> {
    match kind {
        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => Some((0, 0)),
        b'$' | b'=' | b'!' | b'*' | b'~' | b'>' if text == NONE => Some((0, 0)),
        b'$' | b'=' | b'!' => Some((0, length(text)? + 2)),
        b'*' | b'~' | b'>' => Some((length(text)?, 0)),
        b'%' => Some((length(text)? * 2, 0)),
        // The described value follows.
        b'|' => Some((length(text)? * 2 + 1, 0)),
        _ => None,
    }
}

/// A plausible length.
fn length(text: &[u8]) -> Option<usize> {
    let length = std::str::from_utf8(text).ok()?.parse().ok()?;
    (length <= MESSAGE_BYTES_MAX).then_some(length)
}

fn line(bytes: &[u8]) -> Option<Line<'_>> {
    let text = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let end = text.windows(2).position(|two| two == b"\r\n")?;
    let (&kind, text) = text[..end].split_first()?;
    Some((kind, text, end + 2))
}

fn inline_command(bytes: &[u8]) -> Found {
    match bytes.iter().position(|&byte| byte == b'\n') {
        Some(end) => Found::Whole(end + 1),
        None if bytes.len() > LINE_BYTES_MAX => Found::Garbage,
        None => Found::Part,
    }
}

/// The words of a whole request. An empty request has none, and gets no answer.
pub(super) fn words(request: &[u8]) -> Vec<&[u8]> {
    if request.first() != Some(&b'*') {
        let words = request.split(u8::is_ascii_whitespace);
        return words.filter(|word| !word.is_empty()).collect();
    }
    let mut rest = behind_line(request);
    std::iter::from_fn(|| {
        let (word, behind) = text(rest)?;
        rest = behind;
        Some(word)
    })
    .collect()
}

/// The first word of a whole reply with several values.
pub(super) fn first_word(reply: &[u8]) -> Option<&[u8]> {
    text(behind_line(reply)).map(|(word, _)| word)
}

fn behind_line(bytes: &[u8]) -> &[u8] {
    line(bytes).map_or(&[], |(_, _, end)| &bytes[end..])
}

/// The text at the start of these bytes, and the rest.
fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (kind, text, end) = line(bytes)?;
    match kind {
        b'+' => Some((text, &bytes[end..])),
        b'$' => {
            let behind = end + length(text)?;
            Some((bytes.get(end..behind)?, bytes.get(behind + 2..)?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Direction, Found, Scanner, first_word, words};

    const MESSAGES: [&[u8]; 9] = [
        b"+OK\r\n",
        b"$-1\r\n",
        b"$5\r\n1\r\n23\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
        b"%1\r\n+a\r\n~2\r\n_\r\n#t\r\n",
        b"|1\r\n+ttl\r\n:3\r\n>2\r\n+a\r\n,1.5\r\n",
        b"=7\r\ntxt:a\r\n\r\n",
    ];

    #[test]
    fn a_message_ends_where_it_ends() {
        for message in MESSAGES {
            let mut scanner = Scanner::default();
            for end in 1..message.len() {
                assert_eq!(scanner.find(Direction::Replies, &message[..end]), Found::Part, "{end}");
            }
            let more = [message, b"+OK\r\n"].concat();
            assert_eq!(scanner.find(Direction::Replies, &more), Found::Whole(message.len()));
            assert_eq!(scanner.find(Direction::Replies, b"+OK\r\n"), Found::Whole(5));
        }
    }

    #[test]
    fn garbage_is_recognised() {
        for garbage in [&b"HTTP"[..], b"\r\n", b"$x\r\n", b"$99999999999\r\n", b"$1\r\nabc\r\n"] {
            assert_eq!(Scanner::default().find(Direction::Replies, garbage), Found::Garbage);
        }
        assert_eq!(Scanner::default().find(Direction::Requests, b"\x16\x03\x01"), Found::Garbage);
        let nested = b"*1000000\r\n".repeat(3);
        assert_eq!(Scanner::default().find(Direction::Replies, &nested), Found::Garbage);
        let endless = b"+".repeat(70_000);
        assert_eq!(Scanner::default().find(Direction::Replies, &endless), Found::Garbage);
    }

    #[test]
    fn words_are_found_in_both_forms() {
        assert_eq!(words(b"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n"), [&b"ECHO"[..], b"\r\n"]);
        assert_eq!(words(b"ECHO  a\r\n"), [b"ECHO".as_slice(), b"a"]);
        assert!(words(b"*0\r\n").is_empty());
        assert_eq!(first_word(b">2\r\n$4\r\npong\r\n$0\r\n\r\n"), Some(&b"pong"[..]));
        assert_eq!(first_word(b":1\r\n"), None);
    }
}
