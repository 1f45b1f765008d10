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
    let (own, _) = given_to(command);
    let last = own.last().filter(|_| own.iter().all(|word| word.starts_with('-')))?;
    stands_behind(command, last)
}

/// The way out, if the key of this command is missing: what stands behind its `--` may have been meant as one, too.
pub(crate) fn way_to_key(command: &Command) -> Option<String> {
    let name = command.get_name();
    way_out(command).or_else(|| {
        let (_, behind) = given_to(command);
        let first = behind.first()?;
        if first.starts_with('-') {
            return stands_behind(command, first);
        }
        Some(format!(
            "all that stands behind `--` is the command, as in: tenure {name} KEY -- {first}"
        ))
    })
}

/// The words that were given to this command, before `--` and behind it.
fn given_to(command: &Command) -> (Vec<String>, Vec<String>) {
    let own = words().into_iter().skip_while(|word| word != command.get_name()).skip(1);
    let mut own: Vec<String> = own.collect();
    let dashes = own.iter().position(|word| word == "--").unwrap_or(own.len());
    let behind = own.split_off(dashes);
    (own, behind.into_iter().skip(1).collect())
}

fn stands_behind(command: &Command, dashed: &str) -> Option<String> {
    let what = command.get_positionals().next()?.get_id().as_str();
    if !matches!(what, "key" | "prefix") {
        return None;
    }
    let name = command.get_name();
    let rest = if matches!(name, "run" | "lead") { " -- CMD" } else { "" };
    Some(format!(
        "a {what} that begins with `-` stands behind `--`, as in: tenure {name} -- {dashed}{rest}"
    ))
}

/// This process's own words, as far as they are text.
pub(crate) fn words() -> Vec<String> {
    env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}
