//! A Rust file, taken apart line by line: what is code, and what is comment.

/// A file, and where its tests begin.
pub(super) struct Source {
    pub lines: Vec<Line>,
    /// The number of lines above the module of tests that closes the file.
    pub lines_before_tests: usize,
}

/// One line. What stands between quotes is in neither `code` nor `comment`.
pub(super) struct Line {
    pub text: String,
    pub code: String,
    pub comment: String,
}

impl Line {
    /// The marker of a comment that has the line to itself, and the comment.
    pub(super) fn whole_comment(&self) -> Option<(&'static str, &str)> {
        if !self.code.trim().is_empty() {
            return None;
        }
        let marker = ["//!", "///", "//"].into_iter().find(|it| self.comment.starts_with(it))?;
        Some((marker, &self.comment[marker.len()..]))
    }
}

/// What the scanner is in the middle of.
#[derive(Clone, Copy)]
enum Within {
    Code,
    Comment { depth: usize },
    Text,
    RawText { hashes: usize },
}

impl Source {
    /// Takes a file apart.
    pub(super) fn read(text: &str) -> Self {
        let mut within = Within::Code;
        let lines: Vec<Line> = text.lines().map(|line| scan(line, &mut within)).collect();
        let opens_tests = |pair: &[Line]| {
            let (first, second) = (&pair[0].code, &pair[1].code);
            first == "#[cfg(test)]" && second.starts_with("mod ") && second.ends_with('{')
        };
        let lines_before_tests = lines.windows(2).position(opens_tests).unwrap_or(lines.len());
        Self { lines, lines_before_tests }
    }
}

fn scan(text: &str, within: &mut Within) -> Line {
    let chars: Vec<char> = text.chars().collect();
    let mut line = Line { text: text.into(), code: String::new(), comment: String::new() };
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

/// Each of these looks at what is left of a line, and says how many characters it took.
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

/// Whether an `r` that comes next belongs to a name; the `b` and `c` of other quotes do not count.
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
    fn a_whole_comment_is_told_by_its_marker() {
        let source = Source::read("//! a\n/// b\n  // c\nd(); // e\n\"\n// f\n\"");
        let found: Vec<_> = source.lines.iter().map(super::Line::whole_comment).collect();
        let expected = [Some(("//!", " a")), Some(("///", " b")), Some(("//", " c"))];
        assert_eq!(found[..3], expected);
        assert!(found[3..].iter().all(Option::is_none));
    }

    #[test]
    fn the_closing_module_of_tests_is_found() {
        let with = Source::read("fn a() {}\n#[cfg(test)]\nmod b;\n#[cfg(test)]\nmod tests {\n}\n");
        assert_eq!(with.lines_before_tests, 3);
        assert_eq!(Source::read("fn a() {}\n").lines_before_tests, 1);
    }
}
