//! The folders of this crate depend on each other in one direction.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder or file may use itself and those before it.
const ORDER: [&str; 9] =
    ["contract", "sync", "line", "lease", "background", "toolbox", "memory", "layers", "api"];

#[test]
fn folders_use_only_folders_below_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let exports = exports(&code(&src.join("lib.rs")));
    let mut upward = Vec::new();
    for file in files(&src) {
        let path = file.strip_prefix(&src).unwrap().with_extension("");
        let own = path.iter().next().unwrap().to_str().unwrap();
        // The head of a folder also lists parts of others for its users.
        let is_head = path.iter().count() == 1 && src.join(own).is_dir() && own != "line";
        let Some(level) = level(own).filter(|_| !is_head) else { continue };
        for name in used(&code(&file)) {
            let folder = folder_of(&name, &exports);
            if self::level(&folder).is_none_or(|other| other > level) {
                upward.push(format!("{} uses {name} of {folder}", path.display()));
            }
        }
    }
    assert!(upward.is_empty(), "{upward:#?}");
}

fn level(folder: &str) -> Option<usize> {
    ORDER.iter().position(|it| *it == folder)
}

fn folder_of(name: &str, exports: &HashMap<String, String>) -> String {
    let is_folder = level(name).is_some();
    if is_folder { name.to_owned() } else { exports[name].clone() }
}

/// The names that the root exports, with the folder of each.
fn exports(root: &str) -> HashMap<String, String> {
    let mut exports = HashMap::new();
    for item in root.split("pub use ").skip(1) {
        let path = item.split(';').next().unwrap();
        let (folder, _) = path.split_once("::").unwrap();
        let names = path.rsplit("::").next().unwrap();
        for name in names.trim_matches(['{', '}']).split(',') {
            exports.insert(name.trim_matches([' ', '\n', '{', '}']).to_owned(), folder.to_owned());
        }
    }
    exports
}

/// The first name behind each `crate::`, also within braces.
fn used(code: &str) -> Vec<String> {
    let mut used = Vec::new();
    for after in code.split("crate::").skip(1) {
        let list = after.strip_prefix('{').map_or("", |list| &list[..end(list)]);
        let items = if list.is_empty() { vec![after] } else { parts(list) };
        used.extend(items.into_iter().map(first).filter(|name| !name.is_empty()));
    }
    used
}

/// The place of the brace that ends a list.
fn end(list: &str) -> usize {
    let mut depth = 1;
    let closes = |letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        depth == 0
    };
    list.find(closes).unwrap()
}

/// The items of a list, which may have lists of their own.
fn parts(list: &str) -> Vec<&str> {
    let mut depth = 0;
    let splits = |letter| {
        depth += i32::from(letter == '{') - i32::from(letter == '}');
        depth == 0 && letter == ','
    };
    list.split(splits).collect()
}

fn first(item: &str) -> String {
    let is_of_a_name = |letter: &char| letter.is_alphanumeric() || *letter == '_';
    item.trim().chars().take_while(is_of_a_name).collect()
}

/// The code of a file without its comments and unit tests.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_tests = |path: &PathBuf| path.ends_with("tests.rs") || path.ends_with("lib.rs");
    let of = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(of).filter(|path| !is_tests(path)).collect()
}

#[test]
fn a_name_within_braces_is_found() {
    let code = "use crate::{Key, line::{Line, Slot}, Time};\nlet a = crate::jitter(1);";
    assert_eq!(used(code), ["Key", "line", "Time", "jitter"]);
    let root = "pub use a::b::{C, D};\npub use e::F;\n";
    let exports = exports(root);
    assert_eq!((exports["D"].as_str(), exports["F"].as_str()), ("a", "e"));
}
