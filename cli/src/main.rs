//! The command `tenure`: locks for the shell, and inspection of their lines.

#[cfg(not(unix))]
compile_error!("the command `tenure` needs Unix: process groups, signals and terminals");

mod acquisition;
mod aliases;
mod args;
mod claims;
mod failure;
mod heir;
mod inspect;
mod key_after_dashes;
mod lead;
#[cfg(feature = "mcp")]
mod mcp;
mod once;
mod owner;
mod pages;
mod progress;
mod retry_budget;
mod run;
mod screen;
#[cfg(feature = "serve")]
mod serve;
mod setup;
mod store;
mod supervisor;
#[cfg(feature = "file")]
mod warnings;

use std::process::ExitCode;

use args::{Cli, Command};
use claims::{holder, show, take, use_claim};
use failure::Failure;
use inspect::{bench, break_ticket, count, doctor, keys, line, next, ps, top, watch};
use supervisor::{keeper, shim};

fn main() -> ExitCode {
    supervisor::signals::outlive_file_limit();
    // `tenure` starts its own executable as a command's keeper, as its shim, and as a claim holder.
    // `tenure mcp` starts it as a `tenure run` that ends with the session.
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == shim::ARGUMENT => return shim::main(arguments),
        Some(first) if first == keeper::ARGUMENT => return keeper::main(),
        #[cfg(feature = "mcp")]
        Some(first) if first == mcp::session_run::ARGUMENT => {
            return mcp::session_run::main(arguments);
        }
        Some(first) if first == holder::ARGUMENT => return holder::main(),
        _ => {}
    }
    match args::parse(&std::env::args_os().collect::<Vec<_>>()).and_then(dispatch) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(),
    }
}

fn dispatch(cli: Cli) -> Result<u8, Failure> {
    cli.check()?;
    let Cli { on, json, quiet, make, command } = cli;
    #[cfg(feature = "file")]
    if !quiet {
        warnings::print();
    }
    let at = store::Address { on, quiet, make, program: command.program().map(Into::into) };
    match command {
        Command::Run(args) => run::run(&at, &args),
        Command::Once(args) => once::once(&at, json, &args),
        Command::Lead(args) => lead::lead(&at, &args),
        Command::Take(args) => take::take(&at, &args),
        Command::Renew(args) => use_claim::renew(at.quiet, &args),
        Command::Drop(args) => use_claim::drop_claim(at.quiet, &args),
        Command::Show(args) => show::show(json, &args),
        Command::Line(args) => line::line(&at, json, &args),
        Command::Ps(args) => ps::ps(&at, json, &args),
        Command::Keys(args) => keys::keys(&at, json, &args),
        Command::Break(args) => break_ticket::break_ticket(&at, json, &args),
        Command::Watch(args) => watch::watch(&at, json, &args),
        Command::Next(args) => next::next(&at, json, &args),
        Command::Count(args) => count::count(&at, json, &args),
        Command::Bench(args) => bench::bench(&at, json, &args),
        Command::Setup(args) => setup::setup(&at, &args),
        Command::Doctor(args) => doctor::doctor(&at, json, &args),
        Command::Top(args) => top::top(&at, &args),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::serve(&at, &args),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::mcp(at, &args),
        Command::Completions(args) => pages::completions(&args, args::visible_command()),
        Command::Man => pages::man(args::command()),
        Command::BenchPartner(args) => bench::partner(&at, &args),
    }
}
