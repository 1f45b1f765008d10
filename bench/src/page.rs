//! The part of the README and the charts that are written from `results.json`.

use std::fmt::Write as _;
use std::fs;

use crate::chart::{QUESTIONS, STORES, draw};
use crate::figures::Row;
use crate::results::{Results, file};

const BEGIN: &str = "<!-- written by `cargo xtask bench` from results.json -->\n";
const END: &str = "<!-- end -->\n";

/// The texts of all files that are written from the results, by name.
fn files(results: &Results) -> Vec<(&'static str, String)> {
    let page = fs::read_to_string(file("README.md")).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the README has the mark of its begin");
    let (_, after) = rest.split_once(END).expect("the README has the mark of its end");
    let page = format!("{before}{BEGIN}{}{END}{after}", tables(results));
    let charts = QUESTIONS.iter().map(|question| (question.file, draw(results, question)));
    [("README.md", page)].into_iter().chain(charts).collect()
}

/// Writes them.
pub(crate) fn write(results: &Results) -> std::io::Result<()> {
    files(results).into_iter().try_for_each(|(name, text)| fs::write(file(name), text))
}

fn tables(results: &Results) -> String {
    let mut text = String::from(
        "| store | a free lock | beside the floor | a hand-over | beside the floor | with 1,000 waiters | take-over |\n|---|---|---|---|---|---|---|\n",
    );
    for store in STORES {
        let [free, hand_over, thousand, take_over] =
            QUESTIONS.map(|question| results.ours(store, question.case));
        let measured = |row: Option<&Row>| {
            row.map_or("–".into(), |row| {
                row.measured.split(" and ").next().unwrap_or_default().to_owned()
            })
        };
        let beside = |row: Option<&Row>| {
            let text = row.and_then(|row| row.beside.split(';').next());
            text.filter(|text| text.contains("floor")).unwrap_or("–").to_owned()
        };
        writeln!(
            text,
            "| {store} | {} | {} | {} | {} | {} | {} |",
            measured(free),
            beside(free),
            measured(hand_over),
            beside(hand_over),
            measured(thousand),
            measured(take_over),
        )
        .unwrap();
    }
    text.push('\n');
    for question in QUESTIONS {
        writeln!(text, "![{}]({})\n", question.title, question.file).unwrap();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_charts_have_the_numbers_of_the_results() {
        for (name, text) in files(&Results::read().unwrap()) {
            let written = fs::read_to_string(file(name)).unwrap();
            assert_eq!(written, text, "{name}: write it with `cargo xtask bench draw`");
        }
    }
}
