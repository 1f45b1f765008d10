//! Comments are sentences: they start like one and end like one.

use super::source::Source;
use super::{Finding, finding};

/// Checks every comment that has its lines to itself.
pub(super) fn check(source: &Source) -> Vec<Finding> {
    let wrong = |(_, text): &(usize, String)| !is_sentence(text);
    let say = |(line, _)| {
        finding(line, "A comment is a sentence; start it with a capital and end it with a stop.")
    };
    blocks(source).iter().flat_map(|block| paragraphs(block)).filter(wrong).map(say).collect()
}

/// Whether a text starts and ends as a sentence does.
fn is_sentence(text: &str) -> bool {
    let opening = ['(', '[', '"', '\'', '*', '_', '“', '‘'];
    let closing = [')', ']', '"', '\'', '*', '_', '”', '’', '`'];
    let starts = !text.trim_start_matches(opening).starts_with(char::is_lowercase);
    let ends = text.trim_end_matches(closing).ends_with(['.', '!', '?', ':', '…']);
    starts && ends
}

/// Lines of comment with one marker and nothing between them, with their numbers.
fn blocks(source: &Source) -> Vec<Vec<(usize, &str)>> {
    let mut blocks: Vec<Vec<(usize, &str)>> = Vec::new();
    let mut previous = None;
    for (number, line) in (1..).zip(&source.lines) {
        let comment = line.whole_comment();
        let marker = comment.map(|(marker, _)| marker);
        if let Some((_, text)) = comment {
            if marker != previous {
                blocks.push(Vec::new());
            }
            blocks.last_mut().expect("one has just been opened").push((number, text));
        }
        previous = marker;
    }
    blocks
}

/// The paragraphs of prose in a block: no code, lists, tables, headings, links or drawings.
fn paragraphs(block: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut state = State::Between;
    for &(number, text) in block {
        let bare = text.trim();
        let fence = bare.starts_with("```");
        state = match state {
            State::Fenced if !fence => State::Fenced,
            State::Fenced => State::Between,
            _ if fence => State::Fenced,
            _ if bare.is_empty() || is_heading(bare) => State::Between,
            State::Apart => State::Apart,
            _ if is_apart(text) => State::Apart,
            State::Between => {
                found.push((number, bare.into()));
                State::Prose
            }
            State::Prose => {
                let (_, paragraph) = found.last_mut().expect("prose has begun");
                paragraph.push(' ');
                paragraph.push_str(bare);
                State::Prose
            }
        };
    }
    found.retain(|(_, text)| text.contains(char::is_alphabetic) && !is_drawn(text));
    found
}

enum State {
    Between,
    Prose,
    /// In a list, a table, or anything else that need not be sentences, until an empty line.
    Apart,
    Fenced,
}

fn is_heading(bare: &str) -> bool {
    bare.trim_start_matches('#').starts_with(' ') && bare.starts_with('#')
}

fn is_apart(text: &str) -> bool {
    let bare = text.trim();
    let numbered = bare.trim_start_matches(|it: char| it.is_ascii_digit());
    let counts = numbered.len() < bare.len();
    text.starts_with("     ")
        || ["* ", "- ", "+ ", "> ", "|", "<"].iter().any(|it| bare.starts_with(it))
        || (counts && (numbered.starts_with(". ") || numbered.starts_with(") ")))
        || (bare.starts_with('[') && bare.contains("]: "))
        || is_drawn(bare)
}

fn is_drawn(text: &str) -> bool {
    text.contains(|it| ('\u{2500}'..='\u{257f}').contains(&it))
}

#[cfg(test)]
mod tests {
    use super::{Source, check, is_sentence};

    fn lines(text: &str) -> Vec<usize> {
        check(&Source::read(text)).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn sentences_are_told_from_scraps() {
        for good in
            ["A lock.", "`a` is.", "(Is it?)", "**Order.**", "2 of 3.", "[`A`] is:", "\"A.\""]
        {
            assert!(is_sentence(good), "{good}");
        }
        for bad in ["a lock.", "A lock", "let a = b;", "See `a`", "(is it?)", "A,"] {
            assert!(!is_sentence(bad), "{bad}");
        }
    }

    #[test]
    fn each_paragraph_is_looked_at() {
        assert!(lines("/// One\n/// sentence.\n///\n/// Another one.\nfn a() {}").is_empty());
        assert_eq!(lines("/// One sentence.\n///\n/// and a scrap\nfn a() {}"), [3]);
        assert_eq!(lines("// no\nfn a() {}\n    // no\n//! no"), [1, 3, 4]);
    }

    #[test]
    fn what_is_not_prose_is_left_alone() {
        assert!(lines("/// # a heading\n/// ```\n/// let a = 1;\n/// ```\n/// A word.").is_empty());
        assert!(
            lines("/// These:\n/// * one\n///   and more\n/// * two\n///\n/// 1. three").is_empty()
        );
        assert!(lines("/// | a | b |\n/// |---|---|\n///\n/// [a]: https://b").is_empty());
        assert!(lines("//  ┌─┐\n//  │a│\n//  └─┘\n// -----").is_empty());
        assert!(lines("fn a() {} // trailing\nlet b = \"\n// in quotes\n\";").is_empty());
    }

    #[test]
    fn prose_after_a_list_is_prose() {
        assert_eq!(lines("/// * one\n///\n/// a scrap"), [3]);
        assert_eq!(lines("/// ```\n/// a\n/// ```\n/// a scrap"), [4]);
    }
}
