//! A key that begins with `-` stands behind `--`; elsewhere it is read as an option.

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
