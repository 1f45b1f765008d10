//! A table for people: aligned columns, each line cut to the width of the screen.

use unicode_width::UnicodeWidthStr as _;

use crate::screen::{Screen, cut, printable};

const GAP: &str = "  ";

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

    /// Returns the lines, the titles first. On a screen, columns without a text are left out and
    /// longer lines are cut; a pipe gets everything.
    pub(crate) fn render(&self, screen: Option<Screen>) -> String {
        let widest = |at: usize| self.rows.iter().map(|row| row[at].width()).max().unwrap_or(0);
        let is_empty = |at: usize| self.rows[1..].iter().all(|row| row[at].is_empty());
        let columns = (0..self.columns.len()).filter(|at| screen.is_none() || !is_empty(*at));
        let columns: Vec<_> = columns.map(|at| (at, widest(at))).collect();
        let is_bold = screen.is_some_and(|screen| screen.colours);
        let mut text = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let cell = |(at, width): &(usize, usize)| {
                let blank = " ".repeat(width - row[*at].width());
                match self.columns[*at] {
                    Column::Left(_) => row[*at].clone() + &blank,
                    Column::Right(_) => blank + &row[*at],
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
            "STATE    TOKEN  OWNER                  …\n\
             holding      7  backup[12]@host-with-a-…\n\
             holding   1234  日本                   …\n"
        );
    }
}
