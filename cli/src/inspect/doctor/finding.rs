//! A finding of the doctor: one object for programs, or a few lines for people.

use unicode_width::UnicodeWidthStr as _;

use crate::inspect::json::Object;
use crate::screen::{Screen, printable, wrapped};

/// The exit code if there is a warning.
const WARNED: u8 = 1;
/// The exit code if a required guarantee is missing.
const MISSING: u8 = 2;
/// Width of the column of verdicts, and minimum width of the column of names.
const VERDICT_COLUMNS: usize = 8;
const NAME_COLUMNS: usize = 15;
/// Texts begin in a line of their own on screens that are narrower.
const COLUMNS_MIN: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The store has this guarantee.
    Yes,
    /// The store does not have this guarantee, and it was not required.
    No,
    /// The store does not have this guarantee, and it was required.
    Missing,
    Ok,
    /// It is worth knowing, and needs no action.
    Note,
    Warning,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Missing => "missing",
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
        }
    }

    /// The number of its colour, if it has one.
    fn colour(self) -> Option<u8> {
        match self {
            Self::Yes | Self::Ok => Some(32),
            Self::Warning => Some(33),
            Self::Missing => Some(31),
            Self::No | Self::Note => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) check: &'static str,
    pub(super) name: String,
    pub(super) verdict: Verdict,
    pub(super) text: String,
    /// A command that removes the cause.
    pub(super) cure: Option<String>,
    /// Further numbers, for programs.
    pub(super) figures: Vec<(&'static str, i64)>,
}

impl Finding {
    pub(super) fn new(
        check: &'static str,
        name: impl Into<String>,
        verdict: Verdict,
        text: impl Into<String>,
    ) -> Self {
        let (name, text) = (name.into(), text.into());
        Self { check, name, verdict, text, cure: None, figures: Vec::new() }
    }

    pub(super) fn with_cure(self, cure: Option<impl Into<String>>) -> Self {
        Self { cure: cure.map(Into::into), ..self }
    }

    pub(super) fn object(&self) -> String {
        let mut object = Object::new()
            .text("check", self.check)
            .text("name", &self.name)
            .text("verdict", self.verdict.word())
            .text("text", &self.text)
            .maybe_text("cure", self.cure.as_deref());
        for (name, value) in &self.figures {
            object = object.plain(name, *value);
        }
        object.line()
    }

    /// The lines for people. A screen gets texts that are wrapped at its width.
    pub(super) fn lines(&self, screen: Option<Screen>) -> String {
        let columns = screen.map_or(usize::MAX, |screen| screen.columns);
        let word = format!("{:<VERDICT_COLUMNS$}", self.verdict.word());
        let colour = self.verdict.colour().filter(|_| screen.is_some_and(|one| one.colours));
        let word = match colour {
            Some(colour) => format!("\u{1b}[{colour}m{word}\u{1b}[0m"),
            None => word,
        };
        let name = printable(&self.name);
        let blank = " ".repeat(NAME_COLUMNS.saturating_sub(name.width()));
        let indent = if columns < COLUMNS_MIN { 2 } else { VERDICT_COLUMNS + NAME_COLUMNS + 1 };
        let begins_below = columns < COLUMNS_MIN || name.width() > NAME_COLUMNS;
        let mut lines = wrapped(&printable(&self.text), columns.saturating_sub(indent));
        let first = if begins_below || lines.is_empty() { String::new() } else { lines.remove(0) };
        if let Some(cure) = &self.cure {
            lines.extend(wrapped(
                &format!("cure: {}", printable(cure)),
                columns.saturating_sub(indent),
            ));
        }
        let head = format!("{word}{name}{blank} {first}");
        let mut text = format!("{}\n", head.trim_end());
        for line in lines {
            text += &[&" ".repeat(indent), &*line, "\n"].concat();
        }
        text
    }
}

pub(super) fn exit_code(findings: &[Finding]) -> u8 {
    let has = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    match () {
        () if has(Verdict::Missing) => MISSING,
        () if has(Verdict::Warning) => WARNED,
        () => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding() -> Finding {
        let text = "a lock whose holder is paused stays locked until it runs again";
        Finding::new("guarantee", "holder-pause", Verdict::No, text).with_cure(Some("kill -CONT 7"))
    }

    #[test]
    fn a_text_stands_beside_its_name_and_is_wrapped_under_itself() {
        let shown = finding().lines(Some(Screen { columns: 60, colours: false }));
        let expected = "\
no      holder-pause    a lock whose holder is paused stays
                        locked until it runs again
                        cure: kill -CONT 7
";
        assert_eq!(shown, expected);
        assert_eq!(finding().lines(None).lines().count(), 2);
        for columns in 10..100 {
            let shown = finding().lines(Some(Screen { columns, colours: false }));
            let widest = shown.lines().map(str::len).max().unwrap_or(0);
            assert!(widest <= columns.max(20), "{columns}: {shown}");
        }
    }

    #[test]
    fn a_missing_guarantee_counts_more_than_a_warning() {
        let of = |verdicts: &[Verdict]| {
            let one = |verdict: &Verdict| Finding { verdict: *verdict, ..finding() };
            exit_code(&verdicts.iter().map(one).collect::<Vec<_>>())
        };
        assert_eq!(of(&[Verdict::Yes, Verdict::No, Verdict::Ok, Verdict::Note]), 0);
        assert_eq!(of(&[Verdict::Yes, Verdict::Warning]), 1);
        assert_eq!(of(&[Verdict::Missing, Verdict::Warning]), 2);
    }
}
