//! The command line: options and subcommands.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, Write as _};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tenure_kit::registry::Scheme;

use crate::claims::{show, take, use_claim};
use crate::failure::{Failure, USAGE};
use crate::inspect::{bench, break_ticket, count, doctor, keys, line, next, ps, top, watch};
#[cfg(feature = "mcp")]
use crate::mcp;
use crate::screen::printable;
#[cfg(feature = "serve")]
use crate::serve;
use crate::{aliases, key_after_dashes, lead, once, pages, run, setup, store};

/// Locks for the shell: run a program under a lock, lead, inspect, break, count.
///
/// A lock is a line of tickets. The front of the line holds the lock; all others wait behind it,
/// first come, first served.
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
  64  the arguments are wrong          75  busy, timed out, broken while waiting,
                                           or over the limit of `count`
  69  the store is unreachable         76  the claim is lost
                                       77  the store refused
  74  the output cannot be written     1   `break` found nothing to break,
                                           `line --check` found no holder,
                                           `once` has given up the slot, or
                                           `doctor` warns
                                       2   `doctor` misses a guarantee
  79  the lock was lost while the command ran
  126, 127, 128+n  as in shells, and otherwise the command's own"
)]
pub(crate) struct Cli {
    #[cfg_attr(feature = "file", doc = "The store [default: $TENURE_ON, or your own].")]
    #[cfg_attr(not(feature = "file"), doc = "The store [default: $TENURE_ON].")]
    ///
    /// It is a URL. The section Stores of `tenure --help` lists the forms.
    #[cfg_attr(
        feature = "file",
        doc = "Without --on and TENURE_ON it is a file store in your home directory: \
               ~/.local/state/tenure, or $XDG_STATE_HOME/tenure where that is set, or \
               ~/Library/Application Support/tenure on macOS. Every user has their own, also root."
    )]
    /// Other users can see the arguments of a process: put a URL with a password into TENURE_ON.
    #[arg(long, global = true, value_name = "URL", display_order = 900, value_parser = Urls, hide_possible_values = true)]
    pub(crate) on: Option<String>,
    /// Prints one JSON object a line.
    #[arg(long, global = true, display_order = 901)]
    pub(crate) json: bool,
    /// Prints no warnings and no progress of a wait.
    #[arg(long, global = true, display_order = 902)]
    pub(crate) quiet: bool,
    /// Creates missing parent directories of a new store.
    ///
    /// A command that locks creates the directory of a file store and reports it. If a parent
    /// directory is missing, the path may be a mistake, and the command refuses it without this
    /// option.
    #[arg(long, global = true, display_order = 903, hide_short_help = true, hide = !cfg!(feature = "file"))]
    pub(crate) make: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// Refuses `--json` for commands without an answer.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let name = match self.command {
            Command::Run(_) => "run",
            Command::Once(ref args) if !args.lists() => "once",
            Command::Lead(_) => "lead",
            Command::Line(line::Args { check: true, .. }) => "line --check",
            #[cfg(feature = "serve")]
            Command::Serve(_) => "serve",
            #[cfg(feature = "mcp")]
            Command::Mcp(_) => "mcp",
            Command::Renew(_) => "renew",
            Command::Drop(_) => "drop",
            Command::Setup(_) => "setup",
            Command::Top(_) => "top",
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
    Once(Box<once::Args>),
    Lead(lead::Args),
    Take(take::Args),
    Renew(use_claim::Renew),
    Drop(use_claim::Drop),
    Show(show::Args),
    Line(line::Args),
    Ps(ps::Args),
    Keys(keys::Args),
    Break(break_ticket::Args),
    Watch(watch::Args),
    Next(next::Args),
    Count(count::Args),
    Bench(bench::Args),
    Setup(setup::Args),
    Doctor(doctor::Args),
    Top(top::Args),
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    #[cfg(feature = "mcp")]
    Mcp(mcp::Args),
    Completions(pages::Completions),
    /// Prints the manual page.
    #[command(after_help = "Example:\n  tenure man > tenure.1 && man ./tenure.1")]
    Man,
    /// The second process of a hand-over, started by `bench` itself.
    #[command(hide = true)]
    BenchPartner(bench::Partner),
}

impl Command {
    /// Returns the program that runs under the lock.
    ///
    /// `--as` stands for it.
    pub(crate) fn program(&self) -> Option<&OsString> {
        match self {
            Self::Run(args) => args.name.as_ref().or(args.command.first()),
            Self::Once(args) => args.command.first(),
            Self::Lead(args) => args.name.as_ref().or(args.command.first()),
            _ => None,
        }
    }
}

/// Commands without an answer to write as JSON, or with one in one mode only.
const WITHOUT_JSON: [&str; 11] =
    ["run", "once", "lead", "serve", "mcp", "renew", "drop", "setup", "top", "completions", "man"];

/// Returns the whole command line, with the stores of this build in its help.
pub(crate) fn command() -> clap::Command {
    // The option stays, so that the refusal of it can say why.
    let json = || Arg::new("json").long("json").action(ArgAction::SetTrue).hide(true);
    let command = Cli::command().mut_subcommands(|sub| {
        if WITHOUT_JSON.contains(&sub.get_name()) { sub.arg(json().global(true)) } else { sub }
    });
    let rest = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    command.after_long_help(format!("{}\n{rest}", stores()))
}

/// Returns the command line without its hidden subcommands.
pub(crate) fn visible_command() -> clap::Command {
    let all = command();
    let subcommands: Vec<_> =
        all.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect();
    let mut command = clap::Command::new("tenure");
    if let Some(about) = all.get_about() {
        command = command.about(about.clone());
    }
    command.args(all.get_arguments().cloned()).subcommands(subcommands)
}

/// Lists the stores of this build, two lines each: side by side they would not fit a terminal.
fn stores() -> String {
    let mut help = "Stores:\n".to_owned();
    for scheme in store::schemes() {
        let _ = write!(help, "  {}\n      {}\n", scheme.form, scheme.about);
    }
    help
}

/// A parser of any URL; completions offer the prefixes of the stores in this build.
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
        let prefix = |form: &'static str| {
            form.split(|letter: char| letter.is_ascii_uppercase()).next().unwrap_or(form)
        };
        let offer = move |scheme: &'static Scheme| {
            PossibleValue::new(prefix(scheme.form)).help(scheme.about)
        };
        Some(Box::new(store::schemes().map(offer)))
    }
}

/// Parses a command line; the first word is the name of this program.
///
/// # Errors
///
/// Fails with a page if help or the version was requested, and with clap's own message otherwise.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, Failure> {
    let matches = key_after_dashes::parse(command, words.to_vec());
    let parsed = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = parsed.map_err(|error| explain(&error, words))?;
    #[cfg(feature = "serve")]
    if matches!(cli.command, Command::Serve(_)) && is_on_hidden(words) {
        return Err(Failure::usage(
            "--on stands before `serve` and after it: write all stores after it",
        ));
    }
    Ok(cli)
}

/// Whether `--on` stands before `serve` and after it. clap takes only those after it.
#[cfg(feature = "serve")]
fn is_on_hidden(words: &[OsString]) -> bool {
    let is_on = |word: &OsString| word == "--on" || word.as_encoded_bytes().starts_with(b"--on=");
    let mut parts = words.splitn(2, |word| word == "serve");
    parts.all(|part| part.iter().any(is_on))
}

fn explain(error: &clap::Error, words: &[OsString]) -> Failure {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return Failure::page(text);
    }
    if let Some(failure) = aliases::explained(error).or_else(|| aliases::surplus(error, words)) {
        return failure;
    }
    // clap repeats arguments, which may hold control characters.
    let lines = text.lines().map(|line| format!("{}\n", printable(line)));
    let _ = io::stderr().write_all(lines.collect::<String>().as_bytes()); // the code says it, too
    Failure::silent(USAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn help_names_the_engines_of_this_build_and_no_others() {
        let mut all = command();
        let help = all.render_long_help().to_string().to_lowercase();
        let subs: Vec<_> = all.get_subcommands().cloned().collect();
        let subs =
            subs.into_iter().map(|mut sub| sub.render_long_help().to_string().to_lowercase());
        let subs: String = subs.collect();
        for (name, is_built) in [
            ("etcd", cfg!(feature = "etcd")),
            ("file:", cfg!(feature = "file")),
            ("mongodb", cfg!(feature = "mongodb")),
            ("mysql", cfg!(feature = "mysql")),
            ("postgres", cfg!(feature = "postgres")),
            ("redis", cfg!(feature = "redis")),
            ("zookeeper", cfg!(feature = "zookeeper")),
        ] {
            assert_eq!(help.contains(name), is_built, "{name}");
            assert!(is_built || !subs.contains(name), "{name}");
        }
    }
}
