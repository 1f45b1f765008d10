//! The words of the command line: what can be asked for, and how.

use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::num::{IntErrorKind, ParseIntError};

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tenure_kit::options::{listed, nearest};
use tenure_kit::registry::Scheme;

use crate::failure::{Failure, USAGE};
use crate::screen::quoted;
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

/// Reads this process's own words.
pub(crate) fn read() -> Result<Cli, Failure> {
    let words = dashed::parse(command, std::env::args_os().collect());
    words.and_then(|words| Cli::from_arg_matches(&words)).map_err(|error| explain(&error))
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
        ErrorKind::UnknownArgument => unknown(error, ContextKind::InvalidArg),
        ErrorKind::InvalidSubcommand => unknown(error, ContextKind::InvalidSubcommand),
        ErrorKind::MissingRequiredArgument if wants_a_descriptor() => Failure::usage(
            "`flock` can lock a descriptor that a shell has open; `tenure` cannot, for nobody would tell it when \
             the shell closes it: put the commands behind `--`, as in: tenure run KEY -- sh -c '…'",
        ),
        ErrorKind::MissingRequiredArgument => missing(error),
        ErrorKind::MissingSubcommand => {
            Failure::usage("a command is missing: `tenure -h` shows what there is")
        }
        ErrorKind::ArgumentConflict => conflicting(error),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => wrong_value(error),
        _ => Failure::usage(sentence(&error.render().to_string())),
    }
}

/// What must be there and is not.
fn missing(error: &clap::Error) -> Failure {
    let names = named(error, ContextKind::InvalidArg);
    let (sub, command, _) = asked_for();
    if names == ["KEY"]
        && let Some(way_out) = dashed::way_to_key(&sub)
    {
        return Failure::usage(format!("`KEY` is missing: {way_out}"));
    }
    let are = if names.len() == 1 { "is" } else { "are" };
    let names = listed(&names.iter().map(String::as_str).collect::<Vec<_>>(), "and");
    Failure::usage(format!("{names} {are} missing: `{command} -h` shows how it is written"))
}

/// Two options that contradict each other, or one that is given twice.
fn conflicting(error: &clap::Error) -> Failure {
    let one = named(error, ContextKind::InvalidArg).concat();
    let others = named(error, ContextKind::PriorArg);
    if others.contains(&one) {
        return Failure::usage(format!("`{one}` is given twice: leave one out"));
    }
    let others = listed(&others.iter().map(String::as_str).collect::<Vec<_>>(), "or");
    Failure::usage(format!("`{one}` cannot be used with {others}"))
}

/// A value that its option does not take.
fn wrong_value(error: &clap::Error) -> Failure {
    let option = named(error, ContextKind::InvalidArg).concat();
    let words = error.get(ContextKind::ValidValue).and_then(|words| match words {
        ContextValue::Strings(words) if !words.is_empty() => Some(words),
        _ => None,
    });
    if let Some(words) = words {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        return Failure::usage(format!("`{option}` takes {}", listed(&words, "or")));
    }
    let given = error.get(ContextKind::InvalidValue).map(ToString::to_string).unwrap_or_default();
    let Some(why) = error.source() else {
        let command = asked_for().1;
        return Failure::usage(format!(
            "`{option}` lacks its value: `{command} -h` shows what it takes"
        ));
    };
    if let Some(why) = why.downcast_ref::<ParseIntError>() {
        if *why.kind() == IntErrorKind::PosOverflow {
            return Failure::usage(format!("`{option}`: {} is too large", quoted(&given)));
        }
        return Failure::usage(format!(
            "`{option}`: {} is no number that it takes",
            quoted(&given)
        ));
    }
    let why = why.to_string();
    // So says the parser of a number that is out of bounds.
    let bounds = why.split_once(" is not in ").and_then(|(_, bounds)| bounds.split_once("..="));
    Failure::usage(match bounds {
        Some((least, most)) => format!("`{option}` takes a number from {least} to {most}"),
        None => format!("`{option}`: {why}"),
    })
}

/// The options or arguments that an error is about, by their names alone.
fn named(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    let name = |text: &String| {
        let name = text.split(['=', ' ']).next().unwrap_or(text);
        name.trim_matches(['<', '>', '[', ']', '.']).to_owned()
    };
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![name(text)],
        Some(ContextValue::Strings(texts)) => texts.iter().map(name).collect(),
        _ => Vec::new(),
    }
}

/// Commands that other tools have, and the one that does it here.
const ELSEWHERE: [(&[&str], &str); 5] = [
    (&["ls", "list"], "`tenure keys` lists the keys that are held or waited for"),
    (&["lock", "acquire", "exec"], "`tenure run KEY -- CMD` runs a command under a lock"),
    (
        &["unlock", "release", "rm"],
        "a lock is released when its command ends; `tenure break KEY` ends another's",
    ),
    (
        &["status", "show", "info"],
        "`tenure line KEY` shows who holds and who waits, and `tenure keys` all keys",
    ),
    (&["kill"], "`tenure break KEY` tells the holder to end"),
];

/// A word that is none of the command's, with the one that was probably meant.
fn unknown(error: &clap::Error, kind: ContextKind) -> Failure {
    let word = error.get(kind).map_or(String::new(), ToString::to_string);
    if kind == ContextKind::InvalidSubcommand
        && let Some((_, way_out)) = ELSEWHERE.iter().find(|(words, _)| words.contains(&&*word))
    {
        return Failure::usage(format!("`{word}` is no command of `tenure`: {way_out}"));
    }
    let (sub, command, words) = asked_for();
    let meant = nearest(&word, words.iter().map(String::as_str));
    if meant == Some(word.as_str()) {
        return Failure::usage(format!(
            "`{word}` is an option of `{command}`: write it behind that"
        ));
    }
    let way_out = dashed::way_out(&sub).filter(|_| meant.is_none());
    let way_out = way_out.map_or(String::new(), |way_out| format!("; {way_out}"));
    let meant = meant.map_or(String::new(), |meant| format!(" (did you mean `{meant}`?)"));
    if is_below_zero(&word) {
        return Failure::usage(format!(
            "`{word}` is no option of `{command}`, and no number or time is below 0"
        ));
    }
    let what = if word.starts_with('-') { "option" } else { "word" };
    // The command `help` has no page of its own.
    let page = if command == "tenure help" { "tenure" } else { &command };
    Failure::usage(format!(
        "`{word}` is no {what} of `{command}`{meant}: `{page} -h` shows what there is{way_out}"
    ))
}

/// The parser takes it for an option, because of its first sign.
fn is_below_zero(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|rest| rest.starts_with(|sign: char| sign.is_ascii_digit()))
}

/// The command that was asked for, what it is called, and the options or commands that it has.
fn asked_for() -> (clap::Command, String, Vec<String>) {
    let mut all = command();
    all.build();
    let words = dashed::words();
    let sub = words.iter().find_map(|word| all.find_subcommand(word));
    let here = sub.unwrap_or(&all);
    let options = here.get_arguments().filter_map(Arg::get_long).map(|name| format!("--{name}"));
    let commands = here.get_subcommands().filter(|sub| !sub.is_hide_set());
    let known = options.chain(commands.map(|sub| sub.get_name().to_owned())).collect();
    let name = sub.map_or(String::new(), |sub| format!(" {}", sub.get_name()));
    (here.clone(), format!("tenure{name}"), known)
}

/// `tenure run 9`, in the way of `flock 9`.
fn wants_a_descriptor() -> bool {
    let words = dashed::words();
    let own = words.iter().skip_while(|word| *word != "run").skip(1);
    let mut keys = own.filter(|word| !word.starts_with('-'));
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
        command().debug_assert();
    }

    #[test]
    fn an_error_is_one_sentence() {
        let text = "error: the following was not given:\n  <KEY>\n\nUsage: tenure run\n";
        assert_eq!(sentence(text), "the following was not given: <KEY>");
    }
}
