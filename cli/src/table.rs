//! A table for people: aligned, and cut to what the screen has room for.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::screen::{Screen, printable};

const GAP: &str = "  ";
/// A column that has to be cut keeps at least so much.
const CUT_MIN: usize = 8;

/// What a column is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Columns with the highest rank go first where the screen is too narrow for all.
    pub(crate) rank: u8,
    /// Whether its texts may be cut.
    pub(crate) cut: bool,
    /// Numbers are read from the right.
    pub(crate) right: bool,
}

impl Column {
    pub(crate) const fn text(title: &'static str, rank: u8) -> Self {
        Self { title, rank, cut: true, right: false }
    }

    pub(crate) const fn whole(title: &'static str, rank: u8) -> Self {
        Self { title, rank, cut: false, right: false }
    }

    pub(crate) const fn number(title: &'static str, rank: u8) -> Self {
        Self { title, rank, cut: false, right: true }
    }
}

/// Rows of texts under columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row with a text for every column.
    pub(crate) fn row(&mut self, texts: impl IntoIterator<Item = String>) {
        let row: Vec<_> = texts.into_iter().map(|text| printable(&text).into_owned()).collect();
        debug_assert_eq!(row.len(), self.columns.len(), "a text for every column");
        self.rows.push(row);
    }

    /// The lines, with a title. In a pipe there is no colour, and nothing is left out.
    pub(crate) fn render(&self, screen: Option<Screen>) -> String {
        let widths = self.widths(screen);
        let titles: Vec<_> = self.columns.iter().map(|column| column.title).collect();
        let is_bold = screen.is_some_and(|screen| screen.colours);
        let (bold, plain) = if is_bold { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
        let mut text = [bold, &self.line(&titles, &widths), plain, "\n"].concat();
        for row in &self.rows {
            let row: Vec<_> = row.iter().map(String::as_str).collect();
            text.push_str(&self.line(&row, &widths));
            text.push('\n');
        }
        text
    }

    /// How wide each column is; `None` for those that are left out.
    fn widths(&self, screen: Option<Screen>) -> Vec<Option<usize>> {
        let mut widths: Vec<Option<usize>> = (0..self.columns.len())
            .map(|at| {
                let title = self.columns[at].title.width();
                let texts = self.rows.iter().map(|row| row[at].width());
                let width = texts.max().unwrap_or(0).max(title);
                // A column in which nothing stands says nothing.
                let empty = self.rows.iter().all(|row| row[at].is_empty());
                (screen.is_none() || !empty).then_some(width)
            })
            .collect();
        let Some(screen) = screen else { return widths };
        while self.least(&widths) > screen.columns && self.leave_one_out(&mut widths) {}
        while total(&widths) > screen.columns && self.narrow_one(&mut widths) {}
        widths
    }

    /// How wide the table is when all that may be cut is cut.
    fn least(&self, widths: &[Option<usize>]) -> usize {
        let cut = |(width, column): (&Option<usize>, &Column)| {
            width.map(|width| if column.cut { width.min(CUT_MIN) } else { width })
        };
        total(&widths.iter().zip(&self.columns).map(cut).collect::<Vec<_>>())
    }

    fn leave_one_out(&self, widths: &mut [Option<usize>]) -> bool {
        let there = |at: &usize| widths[*at].is_some();
        let left = (0..widths.len()).filter(there).count();
        let last = (0..widths.len()).filter(there).max_by_key(|at| self.columns[*at].rank);
        match last.filter(|_| left > 1) {
            Some(at) => widths[at].take().is_some(),
            None => false,
        }
    }

    /// The same order as for leaving out: what matters least is cut first.
    fn narrow_one(&self, widths: &mut [Option<usize>]) -> bool {
        let can = |at: &usize| self.columns[*at].cut && widths[*at] > Some(CUT_MIN);
        let last = (0..widths.len()).filter(can).max_by_key(|at| self.columns[*at].rank);
        let Some(width) = last.and_then(|at| widths[at].as_mut()) else { return false };
        *width -= 1;
        true
    }

    fn line(&self, texts: &[&str], widths: &[Option<usize>]) -> String {
        let mut line = String::new();
        for ((text, width), column) in texts.iter().zip(widths).zip(&self.columns) {
            let Some(width) = *width else { continue };
            if !line.is_empty() {
                line.push_str(GAP);
            }
            let text = cut(text, width);
            let blank = " ".repeat(width.saturating_sub(text.width()));
            let (left, right) = if column.right { (&*blank, &*text) } else { (&*text, &*blank) };
            line.push_str(left);
            line.push_str(right);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// Cuts a text to so many columns, and shows that it was.
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

fn total(widths: &[Option<usize>]) -> usize {
    let widths: Vec<_> = widths.iter().flatten().collect();
    widths.iter().copied().sum::<usize>() + widths.len().saturating_sub(1) * GAP.len()
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[
            Column::whole("STANDING", 0),
            Column::number("TOKEN", 1),
            Column::text("OWNER", 2),
            Column::whole("ID", 9),
        ]);
        for (token, owner) in [(7, "backup[12]@host-with-a-long-name"), (1234, "日本")] {
            let row = ["holding".into(), format!("{token}"), owner.into(), "0".repeat(32)];
            table.row(row);
        }
        table
    }

    #[test]
    fn in_a_pipe_everything_is_there_under_its_title() {
        let id = "0".repeat(32);
        assert_eq!(
            table().render(None),
            format!(
                "STANDING  TOKEN  OWNER                             ID\n\
                 holding       7  backup[12]@host-with-a-long-name  {id}\n\
                 holding    1234  日本                              {id}\n"
            )
        );
    }

    #[test]
    fn every_screen_shows_what_it_has_room_for() {
        for columns in 1..200 {
            let text = table().render(Some(Screen { columns, colours: false }));
            let widest = text.lines().map(UnicodeWidthStr::width).max();
            assert!(widest <= Some(columns.max("STANDING".len())), "{columns}\n{text}");
        }
        assert_eq!(
            table().render(Some(Screen { columns: 40, colours: false })),
            "STANDING  TOKEN  OWNER\n\
             holding       7  backup[12]@host-with-a…\n\
             holding    1234  日本\n"
        );
    }
}
