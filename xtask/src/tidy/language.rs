//! Plain language: patterns of prose and of code that the style rules out.

use super::source::{Line, Source, is_of_a_word};
use super::{Finding, finding};

const OPENINGS: [&str; 6] = ["Who ", "Whoever ", "What ", "Whose ", "Whom ", "Those who "];
const WORDS: [&str; 7] = ["nobody", "somebody", "anybody", "everybody", "told", "tells", "in vain"];
const SO: [&str; 5] = ["so many", "so long", "so often", "so much", "so few"];
/// Comparisons of a message's text, without white space and quoted text.
const COMPARISONS: [&str; 8] = [
    ".to_string().contains(",
    ".to_string().starts_with(",
    ".to_string().ends_with(",
    ".to_string()==",
    ".to_string().as_str(){",
    "message.contains(",
    "message().contains(",
    "format!(\").contains(",
];
/// Comments that allow a comparison, at most `NEAR` lines above it.
const REASONS: [&str; 3] =
    ["The driver gives only text", "The server gives only text", "is not a message"];
const NEAR: usize = 6;

/// Checks a Rust file: comments, throw-away bindings, and comparisons of messages outside of tests.
pub(super) fn in_source(path: &str, source: &Source) -> Vec<Finding> {
    let mut prose = Prose::default();
    let mut last = "";
    for (number, line) in (1..).zip(&source.lines) {
        let comment = line.whole_comment();
        let marker = comment.map_or("", |(marker, _)| marker);
        if marker != last || comment.is_none() {
            prose.end();
        }
        last = marker;
        prose.line(number, line.comment.trim_start_matches(['/', '!']));
        let is_row = line.comment.trim_start_matches(['/', '!']).trim_start().starts_with('|');
        if comment.is_some() && !is_row && line.text.chars().count() > 100 {
            prose.found(number, "the comment is longer than 100 columns: wrap it".into());
        }
        if let Some(name) = binding(&line.code) {
            let sentence = "is a throw-away binding: write `let _ =` and the reason";
            prose.found(number, format!("`_{name}` {sentence}"));
        }
    }
    if !path.split('/').any(|part| matches!(part, "tests" | "tests.rs" | "examples")) {
        comparisons(&source.lines, &mut prose);
    }
    prose.finish()
}

/// Checks a page outside of its code. A heading or a table's cell may be a noun phrase.
pub(super) fn in_page(text: &str) -> Vec<Finding> {
    let mut prose = Prose::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start();
        let (mark, rest) = line.split_once(' ').unwrap_or((line, ""));
        let is_item =
            matches!(mark, "*" | "-" | ">") || mark.strip_suffix('.').is_some_and(is_number);
        if is_item || line.starts_with(['|', '#']) {
            prose.end();
        }
        prose.line(number, if is_item { rest } else { line });
    }
    prose.finish()
}

fn is_number(text: &str) -> bool {
    text.parse::<u8>().is_ok()
}

/// The paragraphs of a file, each checked when it ends.
#[derive(Default)]
struct Prose {
    fenced: bool,
    first: usize,
    paragraph: String,
    findings: Vec<Finding>,
}

impl Prose {
    fn line(&mut self, number: usize, text: &str) {
        let text = text.trim();
        let is_fence = text.starts_with("```");
        self.fenced ^= is_fence;
        if self.fenced || is_fence || text.is_empty() {
            return self.end();
        }
        if self.paragraph.is_empty() {
            self.first = number;
        }
        self.paragraph.push_str(text);
        self.paragraph.push(' ');
    }

    fn end(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        // An empty code span takes the place of each.
        let text = paragraph.split('`').step_by(2).collect::<Vec<_>>().join("``");
        for words in riddles(&text) {
            let sentence = "hides the subject or the number: name it";
            self.found(self.first, format!("`{}` {sentence}", words.trim()));
        }
    }

    fn found(&mut self, line: usize, sentence: String) {
        self.findings.push(finding(line, sentence));
    }

    fn finish(mut self) -> Vec<Finding> {
        self.end();
        self.findings
    }
}

fn riddles(text: &str) -> Vec<&'static str> {
    let lower = text.to_lowercase();
    let openings = OPENINGS.into_iter().flat_map(|it| {
        let opens = move |at: &usize| {
            let before = text[..*at].trim_end_matches(['"', '\'', '(', '[', '*', '_']);
            let end = text[*at..].find(['.', '!', '?']).map(|end| &text[at + end..]);
            let is_first = before.is_empty()
                || [". ", "! ", "? ", ": ", "; "].iter().any(|it| before.ends_with(it));
            is_first && !end.is_some_and(|end| end.starts_with('?'))
        };
        text.match_indices(it).map(|(at, _)| at).filter(opens).map(move |_| it)
    });
    let words = WORDS.into_iter().chain(SO).flat_map(|it| {
        let is_riddle = |(at, _): &(usize, &str)| {
            let (before, after) = (&lower[..*at], &lower[at + it.len()..]);
            let is_part = before.ends_with(is_of_a_word) || after.starts_with(is_of_a_word);
            let compares = before.ends_with("not ") || after.starts_with(" as ");
            !(is_part || compares && SO.contains(&it))
        };
        lower.match_indices(it).filter(is_riddle).map(|_| it).collect::<Vec<_>>()
    });
    openings.chain(words).collect()
}

/// The name of a throw-away binding, without its underscore, if it has more than one word. A single
/// word names a value that is kept until the end of its scope.
fn binding(code: &str) -> Option<&str> {
    let (_, after) = code.split_once("let _").or_else(|| code.split_once("let mut _"))?;
    let (name, rest) = after.split_at(after.find(|it| !is_of_a_word(it))?);
    let is_bound = rest.trim_start().starts_with(['=', ':']);
    (name.contains('_') && is_bound).then_some(name)
}

/// Finds code that branches on the text of a message, unless a comment gives the reason.
fn comparisons(lines: &[Line], prose: &mut Prose) {
    let (mut code, mut numbers) = (String::new(), Vec::new());
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_test) {
        code.extend(line.code.split_whitespace());
        numbers.resize(code.len(), at);
    }
    let found = COMPARISONS.into_iter().flat_map(|it| code.match_indices(it));
    let mut found: Vec<usize> = found.map(|(at, _)| numbers[at]).collect();
    found.sort_unstable();
    found.dedup();
    found.retain(|&at| {
        let mut above = lines[at.saturating_sub(NEAR)..=at].iter();
        // An assertion does not branch.
        let is_assertion = lines[at].code.contains("assert");
        !is_assertion && !above.any(|line| REASONS.iter().any(|it| line.comment.contains(it)))
    });
    for at in found {
        let sentence = "code branches on the text of a message: use the kind or the reason";
        prose.found(at + 1, sentence.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Vec<usize> {
        in_source("a/src/b.rs", &Source::read(text)).into_iter().map(|it| it.line).collect()
    }

    #[test]
    fn riddles_of_comments_and_pages_are_found() {
        assert_eq!(
            source("//! A lock. What it is.\n// For\n// somebody.\na(); // In vain."),
            [1, 2, 4]
        );
        assert_eq!(in_page("Held for so long.\n\n* Who waits\n  is told.\n").len(), 3);
        assert_eq!(source(&format!("// {}", "a".repeat(98))), [1]);
    }

    #[test]
    fn questions_comparisons_names_and_code_are_no_riddles() {
        assert!(in_page("Who holds it? As often, not so long, so many as 3, untold.\n").is_empty());
        assert!(
            in_page("# What it is\n\n| Who | `What nobody` |\n\n```\n// told\n```\n").is_empty()
        );
        assert!(source("a(\"somebody\"); // `told`\nfn told() {}").is_empty());
    }

    #[test]
    fn bindings_that_are_a_sentence_are_found() {
        assert_eq!(source("let _it_is_late = a();\nlet _it_died: u8 = b();"), [1, 2]);
        assert!(
            source("let _ = a();\nlet _guard = b();\nlet _a = c();\nlet Some(_b) = d;").is_empty()
        );
    }

    #[test]
    fn branches_on_messages_are_found_unless_a_comment_allows_them() {
        assert_eq!(source("if e\n    .to_string()\n    .contains(\"a\") {}"), [2]);
        assert_eq!(
            source("match e.to_string().as_str() {\n}\nformat!(\"{e:?}\").contains(\"a\");"),
            [1, 3]
        );
        assert!(source("// The driver gives only text.\nmessage.contains(\"a\");").is_empty());
        assert!(
            source("#[cfg(test)]\nmod tests {\n    a.to_string().contains(\"b\");\n}").is_empty()
        );
    }
}
