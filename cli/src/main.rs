//! The command `tenure`: locks for the shell, and a look at who holds what.

#[cfg(not(unix))]
compile_error!("the command `tenure` needs Unix: process groups, signals and terminals");

mod alarm;
mod args;
mod bench;
mod break_ticket;
mod child;
mod claim;
mod count;
mod dashed;
mod failure;
mod family;
mod job;
mod json;
mod keeper;
mod keys;
mod lead;
mod lease;
mod leash;
mod line;
mod look_up;
mod moment;
mod nested;
mod next;
mod outage;
mod pages;
mod process;
mod run;
mod screen;
mod shim;
mod signals;
mod stop;
mod store;
mod supervise;
mod table;
mod task;
mod terminal;
mod waiting;
mod watch;

use std::process::ExitCode;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    // This program runs itself as a command's keeper, and as its first moment in a terminal.
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == shim::WORD => return shim::main(words),
        Some(word) if word == keeper::WORD => return keeper::main(),
        _ => {}
    }
    match args::read().and_then(obey) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.tell(),
    }
}

fn obey(cli: Cli) -> Result<u8, Failure> {
    cli.check()?;
    let Cli { on, json, quiet, make, command } = cli;
    let at = store::Address { on, quiet, make };
    match command {
        Command::Run(args) => run::run(&at, &args),
        Command::Lead(args) => lead::lead(&at, &args),
        Command::Line(args) => line::line(&at, json, &args),
        Command::Keys(args) => keys::keys(&at, json, &args),
        Command::Break(args) => break_ticket::break_ticket(&at, json, &args),
        Command::Watch(args) => watch::watch(&at, json, &args),
        Command::Next(args) => next::next(&at, json, &args),
        Command::Count(args) => count::count(&at, json, &args),
        Command::Bench(args) => bench::bench(&at, json, &args),
        Command::Completions(args) => pages::completions(&args, args::command_for_people()),
        Command::Man => pages::man(args::command()),
        Command::BenchPartner(args) => bench::partner(&at, &args),
    }
}
