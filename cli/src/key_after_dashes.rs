//! `tenure run -- KEY -- CMD`: a key that begins with `-` stands after `--`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error};

/// Parses a command line, also one of the form `tenure run -- -x -- CMD`. To clap, everything after
/// the first `--` would be the command, and the key would be missing.
pub(crate) fn parse(
    command: fn() -> Command,
    mut arguments: Vec<OsString>,
) -> Result<ArgMatches, Error> {
    let outcome = command().try_get_matches_from(&arguments);
    let is_missing = |error: &Error| error.kind() == ErrorKind::MissingRequiredArgument;
    let Some(second) =
        second_dashes(&arguments).filter(|_| outcome.as_ref().is_err_and(is_missing))
    else {
        return outcome;
    };
    arguments.remove(second);
    let with_key_first = |sub: Command| sub.mut_arg("command", |arg| arg.last(false));
    let all = command().mut_subcommand("run", with_key_first);
    let all = all.mut_subcommand("once", with_key_first);
    all.mut_subcommand("lead", with_key_first).try_get_matches_from(arguments)
}

/// Returns the position of the second `--` in `-- KEY -- CMD`.
fn second_dashes(arguments: &[OsString]) -> Option<usize> {
    let first = arguments.iter().position(|argument| argument == "--")?;
    let second = first + 2;
    (arguments.get(second)? == "--" && arguments.len() > second + 1).then_some(second)
}
