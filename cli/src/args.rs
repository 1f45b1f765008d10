//! The words of the command line: what can be asked for, and how.

use std::ffi::OsStr;
use std::fmt::Write as _;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tenure_kit::registry::Scheme;

use crate::failure::{Failure, USAGE};
use crate::screen::printable;
use crate::{bench, break_ticket, count, dashed, keys, lead, line, next, pages, run, store, watch};

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
  64  the words make no sense          75  busy, waited in vain, or broken while it waited
  69  the store cannot be reached      77  the store refused
  74  the answer cannot be written     1   `break` found nothing to break
  79  the lock was lost while the command ran
  126, 127, 128+n  as shells have them, and otherwise the command's own"
)]
pub(crate) struct Cli {
    /// The store [default: $TENURE_ON, or your own].
    ///
    /// It is a URL; `tenure --help` lists the forms. Without --on and TENURE_ON it is a file store in your home,
    /// ~/.local/state/tenure ($XDG_STATE_HOME/tenure where that is set, ~/Library/Application Support/tenure on macOS),
    /// which no other user meets, nor does root. Whoever lists processes can read the words of a command: put a URL with a
    /// password into TENURE_ON.
    #[arg(long, global = true, value_name = "URL", display_order = 900, value_parser = Urls, hide_possible_values = true)]
    pub(crate) on: Option<String>,
    /// Answers with one JSON object a line.
    #[arg(long, global = true, display_order = 901)]
    pub(crate) json: bool,
    /// No warnings, and no word of a wait.
    ///
    /// Neither what the operator of the store should know about it nor who holds what is waited for is told.
    #[arg(long, global = true, display_order = 902)]
    pub(crate) quiet: bool,
    /// Makes the directories above a new store.
    ///
    /// A command that locks something makes the directory of a file store, and says so. A directory above it that is
    /// missing is refused without this, because the path may be a mistake.
    #[arg(long, global = true, display_order = 903, hide_short_help = true)]
    pub(crate) make: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Refuses `--json` where nothing is answered.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let name = match self.command {
            Command::Run(_) => "run",
            Command::Lead(_) => "lead",
            Command::Completions(_) => "completions",
            Command::Man => "man",
            _ => return Ok(()),
        };
        if self.json {
            return Err(Failure::usage(format!(
                "`tenure {name}` has no answer to write as JSON: leave out `--json`"
            )));
        }
        Ok(())
    }
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

/// Everything that can be said, with the stores that there are.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let rest = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    command.after_long_help(format!("{}\n{rest}", stores()))
}

/// What people may say.
pub(crate) fn command_for_people() -> clap::Command {
    let all = command();
    let subcommands: Vec<_> =
        all.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect();
    let mut command = clap::Command::new("tenure");
    if let Some(about) = all.get_about() {
        command = command.about(about.clone());
    }
    command.args(all.get_arguments().cloned()).subcommands(subcommands)
}

/// The stores that there are, each with two lines: side by side they would not fit a terminal.
fn stores() -> String {
    let mut help = "Stores:\n".to_owned();
    for scheme in store::schemes() {
        let _infallible = write!(help, "  {}\n      {}\n", scheme.form, scheme.about);
    }
    help
}

/// Any URL; completions offer the beginnings of those that an engine answers to.
#[derive(Clone)]
struct Urls;

impl TypedValueParser for Urls {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let beginning = |form: &'static str| {
            form.split(|letter: char| letter.is_ascii_uppercase()).next().unwrap_or(form)
        };
        let offer = move |scheme: &'static Scheme| {
            PossibleValue::new(beginning(scheme.form)).help(scheme.about)
        };
        Some(Box::new(store::schemes().map(offer)))
    }
}

/// Parses the command line of this process.
///
/// # Errors
///
/// Fails with a page if help or the version was asked for, and with clap's own text otherwise.
pub(crate) fn read() -> Result<Cli, Failure> {
    let matches = dashed::parse(command, std::env::args_os().collect());
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|error| explain(&error))
}

fn explain(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return Failure::page(text);
    }
    // An argument may hold control characters, and clap repeats it.
    let lines = text.lines().map(|line| format!("{}\n", printable(line)));
    eprint!("{}", lines.collect::<String>());
    Failure::silent(USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_fit_together() {
        command().debug_assert();
    }
}
