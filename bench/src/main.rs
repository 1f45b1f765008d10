//! How fast Tenure is, beside the floor and beside its peers, in one run: figures are ratios.
//!
//! `cargo xtask bench` runs every suite, `cargo xtask bench memory etcd` those named. The rows go
//! to `results.json`, from which the README and its charts are written. `bench draw` only writes
//! them.

mod chart;
mod command;
mod contest;
mod crash;
mod etcd;
mod figures;
mod file;
mod memory;
mod mongodb;
mod mysql;
mod page;
mod postgres;
mod processor;
mod redis;
mod results;
mod zookeeper;

use std::process::ExitCode;

use figures::Table;
use results::{Results, Run};

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
    ("postgres", postgres::run),
    ("mariadb", mysql::run),
    ("etcd", etcd::run),
    ("etcd-three", etcd::run_three),
    ("zookeeper", zookeeper::run),
    ("zookeeper-three", zookeeper::run_three),
    ("crash", crash::run),
];

/// Writes the README and its charts without a measurement.
const DRAW: &str = "draw";

fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let kinds = [
        redis::KINDS,
        mongodb::KINDS,
        postgres::KINDS,
        mysql::KINDS,
        etcd::KINDS,
        zookeeper::KINDS,
    ];
    let kinds = kinds.into_iter().flatten().copied();
    if file::other_process(&wanted)
        || contest::other_process(&wanted, kinds)
        || crash::be_one(&wanted)
    {
        return ExitCode::SUCCESS;
    }
    if let Err(error) = measure(&wanted) {
        eprintln!("error: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn measure(wanted: &[String]) -> Result<(), String> {
    let known = |name: &String| name == DRAW || SUITES.iter().any(|(suite, _)| suite == name);
    if let Some(unknown) = wanted.iter().find(|name| !known(name)) {
        let names: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
        return Err(format!("no suite is named {unknown}: the suites are {}", names.join(", ")));
    }
    let mut results = Results::read()?;
    for (name, suite) in SUITES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            let mut table = Table::default();
            suite(&mut table);
            table.print();
            results.replace(Run::now(name, table.rows));
            // After each suite: a later one that panics must not lose its rows.
            let written = std::fs::write(results::file("results.json"), results.text());
            written.map_err(|error| format!("cannot write results.json: {error}"))?;
        }
    }
    page::write(&results).map_err(|error| format!("cannot write the README: {error}"))
}
