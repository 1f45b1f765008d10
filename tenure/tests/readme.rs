//! The README's table of engines is printed from their profiles, so that it cannot lie.

use tenure::engine::{Engine, FileStore, Memory};
use tenure::{Fence, Liveness, Profile};

const HEAD: &str = "\
| engine | a ticket lives by | in order | woken by a push | tokens | survives the crash of its holder | the pause of its holder | the crash of the store | a fail-over | a clock that is set |
|---|---|---|---|---|---|---|---|---|---|
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
    let fence = match profile.fence {
        Fence::Durable => "durable",
        Fence::Volatile => "volatile",
        Fence::None => "–",
    };
    let survives = &profile.survives;
    format!(
        "| `{}` | {life} | {} | {} | {fence} | {} | {} | {} | {} | {} |\n",
        profile.name,
        yes(profile.fair),
        yes(profile.push),
        yes(survives.holder_crash),
        yes(survives.holder_pause),
        yes(survives.store_crash),
        yes(survives.failover),
        yes(survives.clock_step),
    )
}

#[test]
fn the_table_of_engines_is_what_their_profiles_say() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = [FileStore::open(folder.path()).unwrap().profile(), Memory::new().profile()];
    let table: String = HEAD.to_owned() + &profiles.iter().map(row).collect::<String>();
    let readme = include_str!("../../README.md");
    let shown = readme.split("<!-- engines -->\n").nth(1).unwrap();
    let shown = shown.split("<!-- /engines -->").next().unwrap();
    assert_eq!(shown, table, "put this table into README.md:\n{table}");
}
