//! A key that begins with `-` stands behind `--`; elsewhere it is read as an option.

use std::env;
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error};

/// Reads the words of a command line, also `tenure run -- -x -- CMD`: all that follows the first `--` would be the
/// command, and the key would be missing.
pub(crate) fn parse(
    command: fn() -> Command,
    mut words: Vec<OsString>,
) -> Result<ArgMatches, Error> {
    let outcome = command().try_get_matches_from(&words);
    let is_missing = |error: &Error| error.kind() == ErrorKind::MissingRequiredArgument;
    let Some(second) = second_dashes(&words).filter(|_| outcome.as_ref().is_err_and(is_missing))
    else {
        return outcome;
    };
    words.remove(second);
    let with_key_first = |sub: Command| sub.mut_arg("command", |arg| arg.last(false));
    let all = command().mut_subcommand("run", with_key_first);
    all.mut_subcommand("lead", with_key_first).try_get_matches_from(words)
}

/// Where the second `--` of `-- KEY -- CMD` stands.
fn second_dashes(words: &[OsString]) -> Option<usize> {
    let first = words.iter().position(|word| word == "--")?;
    let second = first + 2;
    (words.get(second)? == "--" && words.len() > second + 1).then_some(second)
}

/// The way out, if nothing but options was given to this command, the last of which may have been meant as its key.
pub(crate) fn way_out(command: &Command) -> Option<String> {
    let what = command.get_positionals().next()?.get_id().as_str();
    if !matches!(what, "key" | "prefix") {
        return None;
    }
    let (name, words) = (command.get_name(), words());
    let own = words.iter().skip_while(|word| *word != name).skip(1);
    let own: Vec<&String> = own.take_while(|word| *word != "--").collect();
    let last = own.last().filter(|_| own.iter().all(|word| word.starts_with('-')))?;
    let rest = if matches!(name, "run" | "lead") { " -- CMD" } else { "" };
    Some(format!(
        "a {what} that begins with `-` stands behind `--`, as in: tenure {name} -- {last}{rest}"
    ))
}

/// This process's own words, as far as they are text.
pub(crate) fn words() -> Vec<String> {
    env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}
