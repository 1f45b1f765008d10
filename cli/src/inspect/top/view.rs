//! The screen: a head, the table, and a foot with a message and the keys.

use std::fmt::Write as _;

use super::rows::{Row, table};
use crate::screen::{Screen, cut, wrapped};

/// Maximum number of lines of the foot's message.
const MESSAGE_LINES_MAX: usize = 8;

/// Styles that need no colours.
const BOLD: u8 = 1;
const REVERSE: u8 = 7;

/// Everything that the screen shows.
pub(super) struct View<'a> {
    pub(super) head: String,
    /// The rows that pass the filter.
    pub(super) shown: &'a [&'a Row],
    pub(super) selected: usize,
    pub(super) message: &'a str,
    pub(super) keys: &'a str,
}

impl View<'_> {
    /// Returns the bytes that draw the screen, from its upper left corner.
    pub(super) fn draw(&self, columns: usize, rows: usize) -> String {
        let foot = self.foot(columns);
        // The head and the titles.
        let room = rows.saturating_sub(foot.len() + 2).max(1);
        // The page that has the selected row.
        let first = self.selected / room * room;
        let last = (first + room).min(self.shown.len());
        let page = self.shown.get(first..last).unwrap_or_default();
        let table = table(page);
        let table = table.render(Some(Screen { columns, colours: false }));
        let mut lines = vec![style(&cut(&self.head, columns), BOLD)];
        for (number, line) in table.lines().enumerate() {
            let is_selected = number > 0 && first + number - 1 == self.selected;
            lines.push(match number {
                0 => style(line, BOLD),
                _ if is_selected => {
                    let blank = " ".repeat(columns.saturating_sub(width(line)));
                    style(&format!("{line}{blank}"), REVERSE)
                }
                _ => line.to_owned(),
            });
        }
        lines.resize(rows.saturating_sub(foot.len()).max(1), String::new());
        lines.extend(foot);
        lines.truncate(rows);
        let mut text = String::new();
        for (number, line) in (1..).zip(lines) {
            // Each line has its own position, so that no line wraps and none scrolls the screen.
            let _ = write!(text, "\x1b[{number};1H{line}\x1b[K"); // a string takes everything
        }
        text + "\x1b[J"
    }

    fn foot(&self, columns: usize) -> Vec<String> {
        let mut foot = wrapped(self.message, columns);
        if foot.len() > MESSAGE_LINES_MAX {
            foot.truncate(MESSAGE_LINES_MAX);
            if let Some(last) = foot.last_mut() {
                *last = cut(&format!("{last} …"), columns);
            }
        }
        foot.push(cut(self.keys, columns));
        foot
    }
}

fn width(line: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(line)
}

fn style(line: &str, code: u8) -> String {
    format!("\x1b[{code}m{line}\x1b[0m")
}

#[cfg(test)]
mod tests {
    use super::super::rows::Rows;
    use super::super::rows::tests::line;
    use super::*;

    /// The lines of a drawn screen, without escapes.
    fn plain(text: &str) -> Vec<String> {
        let lines = text.split("\x1b[K").filter_map(|line| line.split_once('H'));
        let bare =
            |line: &str| line.replace("\x1b[1m", "").replace("\x1b[7m", "[").replace("\x1b[0m", "");
        lines.map(|(_, line)| bare(line).trim_end().to_owned()).collect()
    }

    fn draw(message: &str, selected: usize, columns: usize, rows: usize) -> Vec<String> {
        let mut all = Rows::default();
        let keys: Vec<_> = (0..30).map(|count| format!("key{count:02}")).collect();
        all.replace(keys.iter().map(|key| line(key, &["me"], None)).collect());
        let shown = all.shown("");
        let (head, keys) = ("the head".into(), "q quit");
        let view = View { head, shown: &shown, selected, message, keys };
        plain(&view.draw(columns, rows))
    }

    #[test]
    fn the_page_with_the_selected_row_is_shown() {
        let lines = draw("", 9, 30, 10);
        assert_eq!(lines.len(), 10);
        assert_eq!((lines[0].as_str(), lines[9].as_str()), ("the head", "q quit"));
        assert!(lines[2].starts_with("key06"), "{lines:?}");
        assert!(lines[5].starts_with("[key09"), "{lines:?}");
    }

    #[test]
    fn a_message_takes_lines_from_the_table() {
        let lines = draw("one two three four", 0, 10, 8);
        assert_eq!(lines[5..], ["one two", "three four", "q quit"]);
        assert!(lines[4].starts_with("key02"), "{lines:?}");
    }

    #[test]
    fn every_size_is_drawn_within_its_bounds() {
        for columns in 1..60 {
            for rows in 1..30 {
                let lines = draw("a message of some length", 29, columns, rows);
                assert_eq!(lines.len(), rows, "{columns}");
                let widest = lines.iter().map(|line| width(line.trim_start_matches('['))).max();
                assert!(widest <= Some(columns), "{columns} × {rows}: {lines:?}");
            }
        }
    }
}
