//! How fast Tenure is, beside the floor and beside its peers, in one run: figures are ratios.
//!
//! `cargo xtask bench` runs everything; `cargo xtask bench memory` what is named.

mod command;
mod contest;
mod etcd;
mod figures;
mod file;
mod memory;
mod mongodb;
mod processor;
mod redis;
mod zookeeper;

use std::process::ExitCode;

use figures::Table;

type Suite = (&'static str, fn(&mut Table));

const SUITES: &[Suite] = &[
    ("memory", memory::run),
    ("file", file::run),
    ("command", command::run),
    ("redis", redis::run),
    ("redis-waiting", redis::run_waiting),
    ("redlock", redis::run_redlock),
    ("mongodb", mongodb::run),
    ("mongodb-documents", mongodb::run_documents),
    ("etcd", etcd::run),
    ("etcd-three", etcd::run_three),
    ("zookeeper", zookeeper::run),
    ("zookeeper-three", zookeeper::run_three),
];

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let kinds = [redis::KINDS, mongodb::KINDS, etcd::KINDS, zookeeper::KINDS];
    let kinds = kinds.into_iter().flatten().copied();
    if file::other_process(&wanted) || contest::other_process(&wanted, kinds) {
        return ExitCode::SUCCESS;
    }
    let known = |name: &String| SUITES.iter().any(|(suite, _)| suite == name);
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
        eprintln!("there is no bench named {unknown}: there are {}", names.join(", "));
        return ExitCode::from(64);
    }
    let mut table = Table::default();
    for (name, suite) in SUITES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            suite(&mut table);
        }
    }
    table.print();
    ExitCode::SUCCESS
}
