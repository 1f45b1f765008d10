//! Modules of one crate import each other in one direction: whoever changes one need not know both.
//!
//! A module and those inside it are one thing here: what they take from each other is no import.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, is_of_a_word};
use super::{Finding, finding};

/// What each module of a crate imports, by their paths from its root.
type Imports = BTreeMap<Vec<String>, BTreeSet<Vec<String>>>;

/// Checks all files of the tree. Each finding stands with the file of the circle's first module.
pub(super) fn check<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, Finding)> {
    let mut crates: BTreeMap<&str, BTreeMap<Vec<String>, (&str, &str)>> = BTreeMap::new();
    for (path, text) in files {
        if let Some((root, module)) = module_of(path) {
            crates.entry(root).or_default().insert(module, (path, text));
        }
    }
    let circles = crates.values().flat_map(|modules| {
        let imports = imports(modules);
        let say = |circle: Vec<Vec<String>>| {
            let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
            let sentence = format!(
                "The modules {} import each other; move what they share into a module of its own.",
                names.join(" → ")
            );
            (modules[&circle[0]].0.to_owned(), finding(1, sentence))
        };
        circles(&imports).into_iter().map(say).collect::<Vec<_>>()
    });
    circles.collect()
}

/// The folder of a crate's sources and the path of a module in it; none for a root, which is above all others.
fn module_of(path: &str) -> Option<(&str, Vec<String>)> {
    let (root, inside) = path.strip_suffix(".rs")?.split_once("/src/")?;
    let module: Vec<String> = inside.split('/').map(String::from).collect();
    let is_root = matches!(inside, "lib" | "main") || inside.starts_with("bin/");
    (!is_root).then_some((root, module))
}

fn imports(modules: &BTreeMap<Vec<String>, (&str, &str)>) -> Imports {
    let of = |(module, (_, text)): (&Vec<String>, &(&str, &str))| {
        let named = paths(&code(text)).into_iter().filter_map(|path| absolute(module, &path));
        let known = named.filter_map(|path| {
            (1..=path.len())
                .rev()
                .map(|end| path[..end].to_vec())
                .find(|it| modules.contains_key(it))
        });
        let others = known.filter(|other| !module.starts_with(other) && !other.starts_with(module));
        (module.clone(), others.collect())
    };
    modules.iter().map(of).collect()
}

/// The code of a file, without its tests.
fn code(text: &str) -> String {
    let source = Source::read(text);
    let lines = source.lines.iter().take(source.lines_before_tests);
    lines.map(|line| line.code.as_str()).collect::<Vec<_>>().join("\n")
}

/// All paths that begin with `crate::` or `super::`, also those in braces.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let goes_on = |it: char| is_of_a_word(it) || it == ':' || it == '$';
            if !code[..at].ends_with(goes_on) {
                read_path(&code[at..], &mut Vec::new(), &mut found);
            }
        }
    }
    found
}

/// Reads one path, or the paths that its braces hold; gives back what follows.
fn read_path<'a>(text: &'a str, above: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'a str {
    let depth = above.len();
    let mut rest = text.trim_start();
    loop {
        if let Some(mut inner) = rest.strip_prefix('{') {
            while !inner.is_empty() && !inner.starts_with('}') {
                let before = inner;
                inner = read_path(inner, above, found).trim_start_matches([',', ' ', '\n']);
                if inner.len() == before.len() {
                    inner = skip(inner);
                }
            }
            above.truncate(depth);
            return inner.strip_prefix('}').unwrap_or(inner);
        }
        let end = rest.find(|it| !is_of_a_word(it)).unwrap_or(rest.len());
        above.push(rest[..end].to_owned());
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(after) => rest = after,
            None => break,
        }
    }
    found.push(above.clone());
    above.truncate(depth);
    // Another name for it is none of its path.
    rest.trim_start()
        .strip_prefix("as ")
        .map_or(rest, |other| other.trim_start_matches(is_of_a_word))
}

fn skip(text: &str) -> &str {
    let mut letters = text.chars();
    letters.next();
    letters.as_str()
}

/// A path from the crate's root, seen from a module.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let up = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        _ => Some([module.get(..module.len().checked_sub(up)?)?, &path[up..]].concat()),
    }
}

/// One circle for each set of modules that import each other, however many there are in it.
fn circles(imports: &Imports) -> Vec<Vec<Vec<String>>> {
    let mut found: Vec<Vec<Vec<String>>> = Vec::new();
    for module in imports.keys() {
        if found.iter().flatten().any(|known| known == module) {
            continue;
        }
        found.extend(way_back(imports, module));
    }
    found
}

/// The shortest way along the imports of a module back to it.
fn way_back(imports: &Imports, module: &Vec<String>) -> Option<Vec<Vec<String>>> {
    let mut ways = vec![vec![module.clone()]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in imports.get(way.last()?).into_iter().flatten() {
                if next == module {
                    return Some(way);
                }
                if seen.insert(next.clone()) {
                    longer.push([way.clone(), vec![next.clone()]].concat());
                }
            }
        }
        ways = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::check;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(files.iter().copied())
            .into_iter()
            .map(|(path, it)| path + ": " + &it.sentence)
            .collect()
    }

    #[test]
    fn a_circle_is_found_however_its_imports_are_written() {
        for (one, two, three) in [
            ("use crate::b::B;", "use crate::c;", "fn f() { crate::a::g(); }"),
            ("use crate::{b::B, d};", "use super::c::{self, C};", "use crate::a as first;"),
            ("use crate::{d::{D, E}, b};", "pub use crate::c::C;", "type A = super::a::A<u8>;"),
        ] {
            let circle = [("x/src/a.rs", one), ("x/src/b.rs", two), ("x/src/c.rs", three)];
            assert_eq!(
                found(&circle),
                [
                    "x/src/a.rs: The modules a → b → c import each other; move what they share into a module of its own."
                ]
            );
        }
    }

    #[test]
    fn siblings_in_a_folder_and_in_another_make_circles_too() {
        let files = [("x/src/a/b.rs", "use super::c::C;"), ("x/src/a/c.rs", "use crate::a::b::B;")];
        assert_eq!(found(&files).len(), 1);
        let files = [("x/src/a/b.rs", "use crate::d::e::E;"), ("x/src/d/e.rs", "use crate::a::b;")];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn one_direction_is_right_and_so_is_a_module_with_those_inside_it() {
        for files in [
            [("x/src/a.rs", "use crate::b::B;"), ("x/src/b.rs", "use std::a::A;")],
            [("x/src/a.rs", "use crate::a::b::B;"), ("x/src/a/b.rs", "use super::A;")],
            [("x/src/a.rs", "use crate::b::B;"), ("y/src/b.rs", "use crate::a::A;")],
            [("x/src/lib.rs", "use crate::b::B;"), ("x/src/b.rs", "use crate::A;")],
            [("x/src/a.rs", "use crate::b::B;"), ("x/src/b.rs", "// See `crate::a`.")],
            [
                ("x/src/a.rs", "use crate::b::B;"),
                ("x/src/b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
            ],
        ] {
            assert!(found(&files).is_empty(), "{files:?}");
        }
    }
}
