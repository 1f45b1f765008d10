//! A table for people: aligned columns, narrowed and cut to the width of the screen.

use unicode_width::UnicodeWidthStr as _;

use crate::screen::{Screen, cut, printable};

const GAP: &str = "  ";
/// Columns of texts are not narrowed below this: it is the width of a short id.
const TEXT_MIN: usize = 8;

/// A column's title and the side on which its texts are aligned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    Left(&'static str),
    Right(&'static str),
}

/// Rows of texts under their columns.
#[derive(Debug)]
pub(crate) struct Table {
    columns: &'static [Column],
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &'static [Column]) -> Self {
        let title = |column: &Column| match column {
            Column::Left(title) | Column::Right(title) => (*title).to_owned(),
        };
        Self { columns, rows: vec![columns.iter().map(title).collect()] }
    }

    /// Adds a row with one text for each column.
    pub(crate) fn row(&mut self, texts: impl IntoIterator<Item = String>) {
        self.rows.push(texts.into_iter().map(|text| printable(&text).into_owned()).collect());
    }

    /// Returns the lines, the titles first. On a screen, columns without a text are left out, long
    /// texts are narrowed, and lines that are still longer are cut; a pipe gets everything.
    pub(crate) fn render(&self, screen: Option<Screen>) -> String {
        let widest = |at: usize| self.rows.iter().map(|row| row[at].width()).max().unwrap_or(0);
        let is_empty = |at: usize| self.rows[1..].iter().all(|row| row[at].is_empty());
        let columns = (0..self.columns.len()).filter(|at| screen.is_none() || !is_empty(*at));
        let mut columns: Vec<_> = columns.map(|at| (at, widest(at))).collect();
        if let Some(screen) = screen {
            self.narrow(&mut columns, screen.columns);
        }
        let is_bold = screen.is_some_and(|screen| screen.colours);
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cell = |(at, width): &(usize, usize)| {
                let text = cut(&row[*at], *width);
                let blank = " ".repeat(width - text.width());
                match self.columns[*at] {
                    Column::Left(_) => text + &blank,
                    Column::Right(_) => blank + &text,
                }
            };
            let line = columns.iter().map(cell).collect::<Vec<_>>().join(GAP);
            let line = cut(line.trim_end(), screen.map_or(usize::MAX, |screen| screen.columns));
            let (bold, plain) =
                if is_bold && number == 0 { ("\u{1b}[1m", "\u{1b}[0m") } else { ("", "") };
            text += &[bold, &line, plain, "\n"].concat();
        }
        text
    }

    /// Narrows the widest texts until the lines fit, so that one long text hides no other column.
    fn narrow(&self, columns: &mut [(usize, usize)], room: usize) {
        let gaps = GAP.len() * columns.len().saturating_sub(1);
        while columns.iter().map(|(_, width)| width).sum::<usize>() + gaps > room {
            let is_wide = |(at, width): &&mut (usize, usize)| {
                matches!(self.columns[*at], Column::Left(_)) && *width > TEXT_MIN
            };
            match columns.iter_mut().filter(is_wide).max_by_key(|(_, width)| *width) {
                Some((_, widest)) => *widest -= 1,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn table() -> Table {
        const COLUMNS: [Column; 4] = [
            Column::Left("STATE"),
            Column::Right("TOKEN"),
            Column::Left("OWNER"),
            Column::Left("ID"),
        ];
        let mut table = Table::new(&COLUMNS);
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
                "STATE    TOKEN  OWNER                             ID\n\
                 holding      7  backup[12]@host-with-a-long-name  {id}\n\
                 holding   1234  日本                              {id}\n"
            )
        );
    }

    #[test]
    fn every_screen_shows_what_it_has_room_for() {
        for columns in 1..200 {
            let text = table().render(Some(Screen { columns, colours: false }));
            let widest = text.lines().map(UnicodeWidthStr::width).max();
            assert!(widest <= Some(columns), "{columns}\n{text}");
        }
        assert_eq!(
            table().render(Some(Screen { columns: 40, colours: false })),
            "STATE    TOKEN  OWNER        ID\n\
             holding      7  backup[12]…  0000000000…\n\
             holding   1234  日本         0000000000…\n"
        );
        assert_eq!(
            table().render(Some(Screen { columns: 26, colours: false })),
            "STATE    TOKEN  OWNER    …\n\
             holding      7  backup[… …\n\
             holding   1234  日本     …\n"
        );
    }
}
