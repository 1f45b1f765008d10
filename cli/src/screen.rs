//! The screen: its width and colours, and texts that are safe to show.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;

use rustix::fs::{FileType, OFlags};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Width of a terminal that does not report its own.
const COLUMNS_DEFAULT: usize = 80;

/// A terminal to write to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    pub(crate) columns: usize,
    pub(crate) colours: bool,
}

impl Screen {
    /// Standard output; `None` if it is a pipe or a file.
    pub(crate) fn of_output() -> Option<Self> {
        Self::of(&io::stdout())
    }

    /// The same for standard error.
    pub(crate) fn of_errors() -> Option<Self> {
        Self::of(&io::stderr())
    }

    fn of(stream: &(impl AsFd + io::IsTerminal)) -> Option<Self> {
        if !stream.is_terminal() {
            return None;
        }
        let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| size.ws_col);
        let columns = if columns == 0 { COLUMNS_DEFAULT } else { columns.into() };
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        Some(Self { columns, colours: !Self::is_dumb() && !is_set("NO_COLOR") })
    }

    /// Whether the terminal does not act on escape sequences.
    pub(crate) fn is_dumb() -> bool {
        std::env::var_os("TERM").is_none_or(|term| term == "dumb")
    }

    /// Whether standard output was closed when this process started. The Rust runtime then opens
    /// the null device for reading and writing; a shell opens it for writing only.
    pub(crate) fn output_is_closed() -> bool {
        let out = io::stdout();
        let is_null = rustix::fs::fstat(&out).is_ok_and(|stat| {
            rustix::fs::stat("/dev/null").is_ok_and(|null| stat.st_rdev == null.st_rdev)
                && FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        });
        let access = rustix::fs::fcntl_getfl(&out).map(|flags| flags & OFlags::RWMODE);
        is_null && access == Ok(OFlags::RDWR)
    }

    /// Whether standard input and output are both terminals.
    pub(crate) fn is_interactive() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }
}

/// Escapes control characters, so that a text cannot move the cursor or reverse letters.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if is_unprintable(letter) {
            shown.extend(letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Returns the text, cut to `columns` columns and ended by `…` if it is longer.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut room = columns.saturating_sub(1);
    for letter in text.chars() {
        let width = letter.width().unwrap_or(0);
        if width > room {
            break;
        }
        room -= width;
        short.push(letter);
    }
    if columns > 0 {
        short.push('…');
    }
    short
}

/// Breaks a text into lines of at most `columns` columns, between words. A longer word is cut.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(cut(word, columns)),
        }
    }
    lines
}

/// A key as messages show it.
pub(crate) fn quoted(key: &str) -> String {
    format!("`{}`", printable(key))
}

/// Whether a terminal might act on this character, or not show it.
pub(crate) fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_wrapped_between_words() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("one two three", 4), ["one", "two", "thr…"]);
        assert_eq!(wrapped("", 4), [""]);
    }

    #[test]
    fn only_letters_reach_the_terminal() {
        assert_eq!(printable("naïve 日本"), "naïve 日本");
        assert_eq!(printable("a\u{1b}[2Jb\nc\u{202e}"), "a\\u{1b}[2Jb\\nc\\u{202e}");
    }
}
