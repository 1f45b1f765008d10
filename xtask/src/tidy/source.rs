//! A scanner that splits the lines of a Rust file into code and comment, and marks tests.

/// A scanned file.
pub(crate) struct Source {
    pub lines: Vec<Line>,
}

/// One line. Text between quotes is in neither `code` nor `comment`.
pub(crate) struct Line {
    pub text: String,
    pub code: String,
    pub comment: String,
    /// Whether the line belongs to an item below `#[cfg(test)]`, the attribute included.
    pub is_test: bool,
}

impl Line {
    /// Whether the line has code, or a part of a quoted text.
    pub(crate) fn has_code(&self) -> bool {
        !self.code.trim().is_empty() || (self.comment.is_empty() && !self.text.trim().is_empty())
    }

    /// The marker and the text of a comment that fills the line.
    pub(crate) fn whole_comment(&self) -> Option<(&'static str, &str)> {
        if !self.code.trim().is_empty() {
            return None;
        }
        let marker = ["//!", "///", "//"].into_iter().find(|it| self.comment.starts_with(it))?;
        Some((marker, &self.comment[marker.len()..]))
    }
}

/// The scanner's state between two characters.
#[derive(Clone, Copy)]
enum Within {
    Code,
    Comment { depth: usize },
    Text,
    RawText { hashes: usize },
}

impl Source {
    /// Scans a file.
    pub(crate) fn read(text: &str) -> Self {
        let mut within = Within::Code;
        let mut lines: Vec<Line> = text.lines().map(|line| scan(line, &mut within)).collect();
        mark_tests(&mut lines);
        Self { lines }
    }

    /// The modules that only a build of the tests includes, each with a file of its own.
    pub(crate) fn test_modules(&self) -> impl Iterator<Item = &str> {
        let tests = self.lines.iter().filter(|line| line.is_test);
        tests.filter_map(|line| {
            let (visibility, name) = line.code.trim().strip_suffix(';')?.rsplit_once("mod ")?;
            (visibility.is_empty() || visibility.starts_with("pub")).then_some(name)
        })
    }
}

/// The folder of a file's modules.
pub(crate) fn children(path: &str) -> &str {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let is_root = matches!(name, "lib.rs" | "main.rs");
    if is_root { folder } else { path.strip_suffix(".rs").unwrap_or(path) }
}

/// Marks each `#[cfg(test)]` and the item below it, which ends with its braces or with `;`.
fn mark_tests(lines: &mut [Line]) {
    let mut open = 0_usize;
    let mut inside = false;
    for line in lines {
        let code = line.code.trim();
        let is_attribute = code.starts_with("#[");
        inside |= code.starts_with("#[cfg(test)]") || code.starts_with("#[cfg(all(test");
        line.is_test = inside;
        if inside && !is_attribute {
            let opened = code.matches(['{', '(']).count();
            let closed = code.matches(['}', ')']).count();
            open = (open + opened).saturating_sub(closed);
            inside = open > 0 || !code.ends_with([';', '}', ',']);
        }
    }
}

fn scan(text: &str, within: &mut Within) -> Line {
    let chars: Vec<char> = text.chars().collect();
    let mut line =
        Line { text: text.into(), code: String::new(), comment: String::new(), is_test: false };
    let mut at = 0;
    while at < chars.len() {
        let rest = &chars[at..];
        at += match *within {
            Within::Code => code(rest, &mut line, within),
            Within::Comment { depth } => comment(rest, depth, &mut line, within),
            Within::Text => quoted(rest, within),
            Within::RawText { hashes } => raw_quoted(rest, hashes, within),
        };
    }
    line
}

/// Scans the rest of a line, and returns the number of characters that it consumed.
fn code(rest: &[char], line: &mut Line, within: &mut Within) -> usize {
    match rest {
        ['/', '/', ..] => {
            line.comment.extend(rest);
            return rest.len();
        }
        ['/', '*', ..] => {
            *within = Within::Comment { depth: 1 };
            return 2;
        }
        ['"', ..] => *within = Within::Text,
        ['r', after @ ..] if !ends_in_a_word(&line.code) => {
            let hashes = after.iter().take_while(|&&it| it == '#').count();
            if after.get(hashes) == Some(&'"') {
                *within = Within::RawText { hashes };
                return hashes + 2;
            }
        }
        ['\'', '\\', _, after @ ..] => {
            return 4 + after.iter().take_while(|&&it| it != '\'').count();
        }
        ['\'', _, '\'', ..] => return 3,
        _ => {}
    }
    line.code.push(rest[0]);
    1
}

fn comment(rest: &[char], depth: usize, line: &mut Line, within: &mut Within) -> usize {
    match rest {
        ['*', '/', ..] if depth == 1 => *within = Within::Code,
        ['*', '/', ..] => *within = Within::Comment { depth: depth - 1 },
        ['/', '*', ..] => *within = Within::Comment { depth: depth + 1 },
        _ => {
            line.comment.push(rest[0]);
            return 1;
        }
    }
    2
}

fn quoted(rest: &[char], within: &mut Within) -> usize {
    match rest {
        ['\\', ..] => 2,
        ['"', ..] => {
            *within = Within::Code;
            1
        }
        _ => 1,
    }
}

fn raw_quoted(rest: &[char], hashes: usize, within: &mut Within) -> usize {
    let closes =
        rest[0] == '"' && rest[1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes;
    if !closes {
        return 1;
    }
    *within = Within::Code;
    1 + hashes
}

/// Whether an `r` that comes next belongs to a name. The prefixes `b` and `c` of quotes do not
/// count.
fn ends_in_a_word(code: &str) -> bool {
    let mut back = code.chars().rev();
    match back.next() {
        Some('b' | 'c') => back.next().is_some_and(is_of_a_word),
        last => last.is_some_and(is_of_a_word),
    }
}

/// Whether a character can be part of a name.
pub(super) fn is_of_a_word(it: char) -> bool {
    it.is_alphanumeric() || it == '_'
}

#[cfg(test)]
mod tests {
    use super::Source;

    fn code_of(text: &str) -> Vec<String> {
        Source::read(text).lines.into_iter().map(|line| line.code.trim().into()).collect()
    }

    #[test]
    fn quotes_and_comments_are_not_code() {
        assert_eq!(code_of(r#"a("b // c", 'd', '\'', '"'); // e"#), [r#"a(", , , );"#]);
        assert_eq!(code_of("a /* b /* c */ d */ e"), ["a  e"]);
        assert_eq!(code_of("a(\"b\nc\\\"\nd\"); e"), ["a(\"", "", "); e"]);
        assert_eq!(code_of("a(r#\"b\" c\n\"#); d"), ["a(", "); d"]);
        assert_eq!(code_of("br\"a\\\"; b"), ["b; b"]);
    }

    #[test]
    fn lifetimes_and_raw_names_are_code() {
        assert_eq!(code_of("fn a<'b>(r#type: &'b str) {}"), ["fn a<'b>(r#type: &'b str) {}"]);
        assert_eq!(code_of("for \"a\" b"), ["for \" b"]);
        assert_eq!(code_of(r"let a = '\u{1F600}'; b"), ["let a = ; b"]);
    }

    #[test]
    fn a_whole_comment_has_a_marker() {
        let source = Source::read("//! a\n/// b\n  // c\nd(); // e\n\"\n// f\n\"");
        let found: Vec<_> = source.lines.iter().map(super::Line::whole_comment).collect();
        let expected = [Some(("//!", " a")), Some(("///", " b")), Some(("//", " c"))];
        assert_eq!(found[..3], expected);
        assert!(found[3..].iter().all(Option::is_none));
    }

    #[test]
    fn items_of_tests_are_marked_to_their_end() {
        let marks = |text: &str| -> String {
            let lines = Source::read(text).lines;
            lines.iter().map(|line| if line.is_test { 't' } else { '.' }).collect()
        };
        assert_eq!(marks("a();\n#[cfg(test)]\nmod b;\nmod c;"), ".tt.");
        assert_eq!(marks("#[cfg(test)]\n#[rustfmt::skip]\nmod b {\n}\n}\nc();"), "tttt..");
        assert_eq!(marks("#[cfg(test)]\nfn b(\n    c: D,\n) {\n    \"}\";\n}\nc();"), "tttttt.");
        assert_eq!(marks("#[cfg(all(test, unix))]\nuse b::{\n    C,\n};\nd();"), "tttt.");
        let source =
            Source::read("mod a;\n#[cfg(test)]\npub(crate) mod b;\n#[cfg(test)]\nmod c {\n}\n");
        assert_eq!(source.test_modules().collect::<Vec<_>>(), ["b"]);
    }
}
