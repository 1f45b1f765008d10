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

/// The way out, if the key of this command is missing: the last of its options may have been meant as one, or what stands behind
/// its `--`.
pub(crate) fn way_out(command: &Command) -> Option<String> {
    let what = command.get_positionals().next()?.get_id().as_str();
    if !matches!(what, "key" | "prefix") {
        return None;
    }
    let (name, words) = (command.get_name(), words());
    let own: Vec<&String> = words.iter().skip_while(|word| *word != name).skip(1).collect();
    let dashes = own.iter().position(|word| *word == "--");
    let (own, behind) = own.split_at(dashes.unwrap_or(own.len()));
    let is_dashed = |word: &&&String| word.starts_with('-');
    let rest = if matches!(name, "run" | "lead") { " -- CMD" } else { "" };
    let last = own.last().filter(|_| own.iter().all(|word| is_dashed(&word)));
    let dashed = last.or_else(|| behind.get(1).filter(is_dashed));
    Some(match (dashed, behind.get(1)) {
        (Some(dashed), _) => format!(
            "a {what} that begins with `-` stands behind `--`, as in: tenure {name} -- {dashed}{rest}"
        ),
        (None, Some(program)) => format!(
            "all that stands behind `--` is the command, as in: tenure {name} KEY -- {program}"
        ),
        (None, None) => return None,
    })
}

/// This process's own words, as far as they are text.
pub(crate) fn words() -> Vec<String> {
    env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}
