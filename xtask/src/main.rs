//! The developer's commands: `cargo xtask test` and its siblings.

mod cargo_tool;
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
mod tally;
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
  test [ARGUMENTS]     starts the servers and runs every test, many side by side; with arguments it is
                       one `cargo test` that gets them
  bench [NAME…]        measures everything, or what is named, beside the floor and a peer
  sim [ARGUMENTS]      runs the simulation: `--seeds 1000000`, or `--seed N` to see one again
  mutants [ARGUMENTS]  puts faults into core, one by one, and tells which of them no test notices
  tidy                 checks what compilers do not: pages, comments, manifests, left-overs
  ci [GATE…]           runs every gate that a change must pass, or only those named
  help                 prints this";

/// The exit code of a command line that makes no sense, as in `sysexits.h`.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let done = enter_the_root().and_then(|()| obey(&arguments));
    done.unwrap_or_else(|sentence| {
        eprintln!("{sentence}");
        ExitCode::FAILURE
    })
}

/// Every command works in the root of the workspace, wherever it is called from.
fn enter_the_root() -> process::Result<()> {
    let Some(package) = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from) else {
        return Err("Start this with `cargo xtask`: cargo says where the workspace is.".into());
    };
    let root = package.parent().unwrap_or(&package);
    env::set_current_dir(root)
        .map_err(|error| format!("{} cannot be entered: {error}.", root.display()))
}

fn obey(arguments: &[String]) -> process::Result<ExitCode> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        []
        | ["help" | "--help" | "-h", ..]
        | ["servers" | "tidy", "help" | "--help" | "-h", ..] => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        ["servers"] => {
            println!("{}", servers::listing());
            Ok(ExitCode::SUCCESS)
        }
        ["servers", "run", program, rest @ ..] => servers::run(program, rest),
        ["test", rest @ ..] => signals::heed().map(|()| testing::command(rest)),
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
        ["tidy"] => tidy::check().map(|note| {
            println!("{note}");
            ExitCode::SUCCESS
        }),
        ["ci", names @ ..] => match gates::choose(names) {
            Ok(gates) => signals::heed().map(|()| gates::command(&gates)),
            Err(sentence) => Ok(misused(&sentence)),
        },
        _ => Ok(misused(&format!(
            "`cargo xtask {}` is not a command: `cargo xtask help` lists them.",
            words.join(" ")
        ))),
    }
}

fn misused(sentence: &str) -> ExitCode {
    eprintln!("{sentence}");
    ExitCode::from(USAGE)
}
