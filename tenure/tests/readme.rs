//! The README's tables are printed from what the engines say of themselves, so that they cannot lie.

#![cfg(all(feature = "etcd", feature = "file", feature = "mongodb", feature = "redis", feature = "zookeeper"))]

use tenure::blocking::block_on;
use tenure::engine::kit::register::Scheme;
use tenure::engine::{Engine, FileStore, Memory};
use tenure::register::REGISTER;
use tenure::{Fencing, Liveness, Profile};
use tenure_servers::Tool;
use tenure_servers::etcd::ETCD;
use tenure_servers::mongodb::MONGOD;
use tenure_servers::redis::REDIS;
use tenure_servers::zookeeper::ZOOKEEPER;

const HEAD: &str = "\
| engine | a ticket lives by | in order | woken by a push | tokens | survives the crash of its holder | the pause of its holder | the crash of the store | a fail-over | a clock that is set | a full memory |
|---|---|---|---|---|---|---|---|---|---|---|
";

fn row(profile: &Profile) -> String {
    let yes = |holds: bool| if holds { "yes" } else { "–" };
    let life = match profile.liveness {
        Liveness::Process => "its process",
        Liveness::Kernel => "the kernel",
        Liveness::Lease => "its lease",
        Liveness::Session => "its session",
        _ => "?",
    };
    let fence = match profile.fencing {
        Fencing::Durable => "durable",
        Fencing::Volatile => "volatile",
        Fencing::None => "–",
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

/// What servers promise as they come, each on a store of its own; `None` where there are none.
fn served(program: Tool, variable: &str) -> Option<Profile> {
    if !tenure_servers::have(&[program]) {
        return None;
    }
    let url = tenure_servers::url_of(variable).expect("the server starts");
    let locks = block_on(tenure::connect(url)).expect("it can be connected to");
    Some(locks.guarantees().clone())
}

#[test]
fn the_table_of_engines_is_what_their_profiles_say() {
    let folder = tempfile::tempdir().unwrap();
    let file = FileStore::open(folder.path()).unwrap().profile();
    let mongodb = served(MONGOD, "TENURE_TEST_MONGODB_MEMBERS_URL");
    let redis = served(REDIS, "TENURE_TEST_REDIS_URL");
    let redlock = served(REDIS, "TENURE_TEST_REDLOCK_URL");
    let etcd = served(ETCD, "TENURE_TEST_ETCD_URL");
    let zookeeper = served(ZOOKEEPER, "TENURE_TEST_ZOOKEEPER_THREE_URL");
    let readme = include_str!("../../README.md");
    let shown = readme.split("<!-- engines -->\n").nth(1).unwrap();
    let shown = shown.split("<!-- /engines -->").next().unwrap();
    let (Some(mongodb), Some(redis), Some(redlock), Some(etcd), Some(zookeeper)) =
        (mongodb, redis, redlock, etcd, zookeeper)
    else {
        assert!(shown.starts_with(&(HEAD.to_owned() + &row(&file))), "the rest needs servers");
        return;
    };
    let engines = [file, mongodb, redis, redlock, etcd, zookeeper, Memory::new().profile()];
    let table: String = engines.iter().map(row).collect();
    let table = HEAD.to_owned() + &table;
    assert_eq!(shown, table, "put this table into README.md:\n{table}");
}

#[test]
fn the_table_of_urls_is_what_the_register_says() {
    let row = |scheme: &Scheme| format!("| `{}` | {} |\n", scheme.form, scheme.about);
    let rows: String = REGISTER.iter().flat_map(|engine| engine.schemes).map(row).collect();
    let table = format!("| URL | store |\n|---|---|\n{rows}");
    let in_docs = include_str!("../src/urls.md");
    assert_eq!(in_docs, table, "put this table into tenure/src/urls.md:\n{table}");
    let readme = include_str!("../../README.md");
    let shown = readme.split("<!-- urls -->\n").nth(1).unwrap().split("<!-- /urls -->").next();
    assert_eq!(shown, Some(&*table), "put this table into README.md:\n{table}");
}

#[test]
fn every_option_is_in_the_readme_of_its_engine() {
    for (name, page) in [
        ("file", include_str!("../../engines/file/README.md")),
        ("redis", include_str!("../../engines/redis/README.md")),
        ("etcd", include_str!("../../engines/etcd/README.md")),
        ("zookeeper", include_str!("../../engines/zookeeper/README.md")),
    ] {
        let engine = REGISTER.iter().find(|engine| engine.name == name).unwrap();
        for option in engine.options {
            assert!(
                page.contains(option.name),
                "`{}` is missing in the page of {name}",
                option.name
            );
        }
    }
}
