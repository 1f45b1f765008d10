//! The tables of the README agree with the descriptions and guarantees of the engines.

#![cfg(feature = "all")]

use std::fs;

use tenure::blocking::block_on;
use tenure::engine::{Engine, FileStore, Memory};
use tenure::guarantees::{Guarantees, Liveness, TokenDurability};
use tenure::registry::REGISTER;
use tenure_kit::registry::Scheme;
use tenure_servers::deployments;

const HEAD: &str = "\
| engine | a ticket lives by | in order | woken by a push | tokens | holder crash | holder pause | store crash | fail-over | clock step | full memory |
|---|---|---|---|---|---|---|---|---|---|---|
";

fn row(profile: &Guarantees) -> String {
    let yes = |holds: bool| if holds { "yes" } else { "–" };
    let life = match profile.liveness {
        Liveness::Process => "its process",
        Liveness::Kernel => "the kernel",
        Liveness::Lease => "its lease",
        Liveness::Session => "its session",
        _ => "?",
    };
    let fence = match profile.fencing {
        TokenDurability::Durable => "durable",
        TokenDurability::Volatile => "volatile",
        TokenDurability::None => "–",
        _ => "?",
    };
    let survives = &profile.survives;
    format!(
        "| `{}` | {life} | {} | {} | {fence} | {} | {} | {} | {} | {} | {} |\n",
        profile.name,
        yes(profile.fair),
        yes(profile.push),
        yes(survives.holder_crash),
        yes(survives.holder_pause),
        yes(survives.store_crash),
        yes(survives.failover),
        yes(survives.clock_step),
        yes(survives.full_memory),
    )
}

/// The deployments that stand for their engines, in the order of the table.
const SERVED: [&str; 7] = [
    "TENURE_TEST_MONGODB_MEMBERS_URL",
    "TENURE_TEST_MARIADB_URL",
    "TENURE_TEST_POSTGRES_URL",
    "TENURE_TEST_REDIS_URL",
    "TENURE_TEST_REDLOCK_URL",
    "TENURE_TEST_ETCD_URL",
    "TENURE_TEST_ZOOKEEPER_THREE_URL",
];

/// Returns the guarantees of servers with default settings, or `None` if they are not installed.
fn served(variable: &str) -> Option<Guarantees> {
    let deployment = deployments().into_iter().find(|one| one.variable == variable)?;
    if !tenure_servers::have(deployment.needs) {
        return None;
    }
    let url = tenure_servers::url_of(variable).expect("the server starts");
    let locks = block_on(tenure::connect(url)).expect("it can be connected to");
    Some(locks.guarantees().clone())
}

/// The part of a page between two marks.
fn part<'a>(page: &'a str, mark: &str) -> &'a str {
    let after = page.split(&format!("<!-- {mark} -->\n")).nth(1).unwrap();
    after.split(&format!("<!-- /{mark} -->")).next().unwrap()
}

#[test]
fn the_short_table_agrees_with_the_full_one() {
    let free = |life: &str| if life == "the kernel" { "at once" } else { "after the ttl" };
    let full = part(include_str!("../STORES.md"), "engines");
    let rows = full.lines().skip(2).map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        format!(
            "| {} | {} | {} | {} | {} |\n",
            cells[1],
            free(cells[2]),
            cells[3],
            cells[8],
            cells[9]
        )
    });
    let head = "| engine | a dead holder's lock is free | in order | store crash | fail-over |\n";
    let table = head.to_owned() + "|---|---|---|---|---|\n" + &rows.collect::<String>();
    let shown = part(include_str!("../../README.md"), "engines");
    assert_eq!(shown, table, "put this table into README.md:\n{table}");
}

#[test]
fn the_table_of_engines_agrees_with_their_guarantees() {
    let folder = tempfile::tempdir().unwrap();
    let file = FileStore::open(folder.path()).unwrap().guarantees();
    let shown = part(include_str!("../STORES.md"), "engines");
    for engine in REGISTER {
        let row = format!("| `{}` |", engine.name);
        assert!(shown.contains(&row), "the table of engines in STORES.md lacks {}", engine.name);
    }
    let Some(served) = SERVED.into_iter().map(served).collect::<Option<Vec<_>>>() else {
        assert!(shown.starts_with(&(HEAD.to_owned() + &row(&file))), "the rest needs servers");
        return;
    };
    let engines = [file].into_iter().chain(served).chain([Memory::new().guarantees()]);
    let table: String = engines.map(|profile| row(&profile)).collect();
    let table = HEAD.to_owned() + &table;
    assert_eq!(shown, table, "put this table into tenure/STORES.md:\n{table}");
}

#[test]
fn the_table_of_urls_agrees_with_the_registry() {
    let row = |scheme: &Scheme| format!("| `{}` | {} |\n", scheme.form, scheme.about);
    let rows: String = REGISTER.iter().flat_map(|engine| engine.schemes).map(row).collect();
    let table = format!("| URL | store |\n|---|---|\n{rows}");
    let in_docs = include_str!("../src/urls.md");
    assert_eq!(in_docs, table, "put this table into tenure/src/urls.md:\n{table}");
    let shown = part(include_str!("../STORES.md"), "urls");
    assert_eq!(shown, table, "put this table into tenure/STORES.md:\n{table}");
}

#[test]
fn every_engine_has_a_page_with_all_its_options_and_a_link_to_it() {
    let readme = include_str!("../../README.md");
    // The engine in memory is a part of the core, and has no page.
    for engine in REGISTER.iter().filter(|engine| engine.name != "memory") {
        let name = engine.name;
        let path = format!("engines/{name}/README.md");
        assert!(readme.contains(&format!("({path})")), "README.md does not name {path}");
        let page = fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for option in engine.options {
            assert!(page.contains(option.name), "`{}` is missing in {path}", option.name);
        }
    }
}
