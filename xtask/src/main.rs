//! The developer's commands: `cargo xtask test` and its siblings.

mod cargo_tool;
mod counts;
mod deny;
mod features;
mod fetch;
mod gates;
mod install;
mod metadata;
mod mutants;
mod process;
mod rust_version;
mod servers;
mod signals;
mod sizes;
mod testing;
mod tidy;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use process::{cargo, run};

const HELP: &str = "\
The developer's commands of Tenure: `cargo xtask COMMAND`.

  servers              lists the real servers that the tests know, and how each is found
  servers run COMMAND  starts them, runs a command that finds them, and stops them
  test [ARGUMENTS]     starts the servers and runs every test, several programs at once; with arguments
                       it is one `cargo test` that gets them
  bench [NAME…]        measures every suite, or those named, and redraws the figures
  sim [ARGUMENTS]      runs the simulation: `--seeds 1000000`, or `--seed N` to replay one
  mutants [ARGUMENTS]  puts faults into core, one by one, and lists those that no test notices
  tidy                 checks links, manifests, left-overs, and the language of pages and comments
  sizes                prints the lines of code of each crate
  ci [GATE…]           runs every gate that a change must pass, or only those named
  help                 prints this";

/// `EX_USAGE` of `sysexits.h`.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = enter_root().and_then(|()| dispatch(&arguments));
    done.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Changes to the root of the workspace, where every command works.
fn enter_root() -> process::Result<()> {
    let Some(package) = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) else {
        return Err("CARGO_MANIFEST_DIR is not set: start this with `cargo xtask`".into());
    };
    let root = package.parent().unwrap_or(&package);
    env::set_current_dir(root).map_err(|error| format!("cannot enter {}: {error}", root.display()))
}

fn dispatch(arguments: &[String]) -> process::Result<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        []
        | ["help" | "--help" | "-h", ..]
        | ["servers" | "sizes" | "tidy", "help" | "--help" | "-h", ..] => Ok(show(HELP)),
        ["servers"] => Ok(show(servers::listing())),
        ["servers", "run", program, rest @ ..] => servers::run(program, rest),
        ["test", rest @ ..] => signals::restore().and_then(|()| testing::command(rest)),
        ["bench", rest @ ..] => {
            if rest.is_empty() || rest.contains(&"command") {
                run(&mut cargo(["build", "--release", "--package", "tenure-cli"]))?;
            }
            let bench = ["run", "--release", "--package", "tenure-bench", "--"];
            run(cargo(bench).args(rest)).map(|()| ExitCode::SUCCESS)
        }
        ["sim", rest @ ..] => {
            let sim =
                ["run", "--release", "--package", "tenure-conformance", "--example", "sim", "--"];
            run(cargo(sim).args(rest)).map(|()| ExitCode::SUCCESS)
        }
        ["mutants", rest @ ..] => mutants::run_over_core(rest).map(|()| ExitCode::SUCCESS),
        ["tidy"] => tidy::check().map(show),
        ["sizes"] => sizes::listing().map(show),
        ["ci", names @ ..] => match gates::choose(names) {
            Ok(gates) => signals::restore().map(|()| gates::command(&gates)),
            Err(error) => Ok(misused(&error)),
        },
        _ => Ok(misused(&format!(
            "`cargo xtask {}` is not a command: `cargo xtask help` lists them",
            words.join(" ")
        ))),
    }
}

fn show(text: impl std::fmt::Display) -> ExitCode {
    println!("{text}");
    ExitCode::SUCCESS
}

fn misused(error: &str) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(USAGE)
}
