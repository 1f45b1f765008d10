//! The words of the command line: what can be asked for, and how.

use std::ffi::OsString;

use clap::error::{ContextKind, ErrorKind};
use clap::{Parser, Subcommand};

use crate::failure::{Failure, USAGE};
use crate::{bench, break_ticket, count, keys, lead, line, next, pages, run, watch};

/// Locks for the shell: run a program under a lock, lead, look, break, count.
///
/// A lock is a line of tickets: the front of the line is served, and everybody else waits behind it, first
/// come, first served.
#[derive(Parser)]
#[allow(clippy::doc_markdown, reason = "it is a page for terminals")]
#[command(
    name = "tenure",
    version,
    disable_help_subcommand = false,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_long_help = "\
Example:
  tenure run nightly -- ./backup.sh

Exit codes:
  64  the words make no sense          75  busy, or waited in vain
  69  the store cannot be reached      77  the store refused
  79  the lock was lost while the command ran
  126, 127, 128+n  as shells have them, and otherwise the command's own"
)]
pub(crate) struct Cli {
    /// The store [default: $TENURE_ON, or your own].
    ///
    /// A store is file:PATH, or redis://HOST and its kin. `machine:` is the one store of this machine that its users
    /// share, once root has made it. Without --on and TENURE_ON it is a file store in this user's home, which no other
    /// user meets, root neither. Whoever lists processes can read the words of a command: a URL with a password is
    /// better put into TENURE_ON.
    #[arg(long, global = true, value_name = "URL", display_order = 900)]
    pub(crate) on: Option<String>,
    /// Answers with one JSON object a line.
    #[arg(long, global = true, display_order = 901)]
    pub(crate) json: bool,
    /// No warnings, and no word of a wait.
    ///
    /// Neither what the operator of the store should know about it nor who holds what is waited for is told.
    #[arg(long, global = true, display_order = 902)]
    pub(crate) quiet: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Lead(lead::Args),
    Line(line::Args),
    Keys(keys::Args),
    Break(break_ticket::Args),
    Watch(watch::Args),
    Next(next::Args),
    Count(count::Args),
    Bench(bench::Args),
    Completions(pages::Completions),
    /// Prints the manual page.
    #[command(after_help = "Example:\n  tenure man > tenure.1 && man ./tenure.1")]
    Man,
    /// The second process of a hand-over, started by `bench` itself.
    #[command(hide = true)]
    BenchPartner(bench::Partner),
}

/// Reads this process's own words.
pub(crate) fn read() -> Result<Cli, Failure> {
    match Cli::try_parse_from(std::env::args_os()) {
        Ok(cli) => Ok(cli),
        Err(error) => Err(explain(&error)),
    }
}

fn explain(error: &clap::Error) -> Failure {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Failure::page(error.render().to_string())
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Whoever asked for nothing is shown what there is.
            eprint!("{}", error.render());
            Failure::silent(USAGE)
        }
        ErrorKind::InvalidUtf8 => Failure::usage(
            "an argument is not UTF-8: only the words of the command behind `--` may be any bytes",
        ),
        ErrorKind::UnknownArgument if wants_dashes(error) => {
            Failure::usage("the command to run stands behind `--`, as in: tenure run KEY -- CMD")
        }
        ErrorKind::MissingRequiredArgument if wants_a_descriptor() => Failure::usage(
            "`flock` can lock a descriptor that a shell has open; `tenure` cannot, for nobody would tell it when \
             the shell closes it: put the commands behind `--`, as in: tenure run KEY -- sh -c '…'",
        ),
        _ => Failure::usage(sentence(&error.render().to_string())),
    }
}

/// `tenure run 9`, in the way of `flock 9`.
fn wants_a_descriptor() -> bool {
    let words = std::env::args().skip_while(|word| word != "run").skip(1);
    let mut keys = words.filter(|word| !word.starts_with('-'));
    keys.next().is_some_and(|key| key.parse::<u32>().is_ok()) && keys.next().is_none()
}

/// A word too many for `run` and `lead` is most likely the command.
fn wants_dashes(error: &clap::Error) -> bool {
    let bare =
        error.get(ContextKind::InvalidArg).is_some_and(|word| !word.to_string().starts_with('-'));
    let words: Vec<OsString> = std::env::args_os().collect();
    bare && !words.iter().any(|word| word == "--")
        && words.iter().any(|word| word == "run" || word == "lead")
}

/// The first paragraph of what the parser says, on one line.
fn sentence(text: &str) -> String {
    let first = text.split("\n\n").next().unwrap_or(text);
    let words: Vec<&str> = first.split_whitespace().collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_fit_together() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn an_error_is_one_sentence() {
        let text = "error: the following was not given:\n  <KEY>\n\nUsage: tenure run\n";
        assert_eq!(sentence(text), "the following was not given: <KEY>");
    }
}
