//! Command lines that other tools would accept: each is answered with the one that does it here.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Error};

use crate::args::Cli;
use crate::failure::Failure;

/// The words, and the commands for them.
const ALIASES: [(&str, &str); 4] = [
    ("ls", "`tenure keys` lists the keys, and `tenure ps` their holders"),
    (
        "lock",
        "`tenure run KEY -- CMD` locks for one command, and `tenure take KEY` for several commands",
    ),
    (
        "unlock",
        "`tenure drop` ends a lock of `tenure take`, and `tenure break KEY` asks any holder to leave",
    ),
    ("status", "`tenure line KEY` shows one key, and `tenure ps` the holders of all keys"),
];

/// Commands on a claim, which a claim and no key names.
const OF_CLAIMS: [&str; 3] = ["renew", "drop", "show"];
/// Commands that run another one.
const RUNNERS: [&str; 3] = ["run", "once", "lead"];

/// Returns the answer if clap has refused a word that stands where this command line has none.
pub(crate) fn surplus(error: &Error, words: &[OsString]) -> Option<Failure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let all = Cli::command();
    let name = words.iter().skip(1).find_map(|word| all.find_subcommand(word))?.get_name();
    if RUNNERS.contains(&name) && !words.iter().any(|word| word == "--") {
        let sentence = "`--` is missing before the command: write";
        return Some(Failure::usage(format!("{sentence} `tenure {name} KEY -- {word}`")));
    }
    OF_CLAIMS.contains(&name).then(|| {
        Failure::usage(format!(
        "`tenure {name}` takes no key: it is about the claim in TENURE_CLAIM, or that of --claim; `tenure break \
         KEY` asks any holder of a key to leave"
        ))
    })
}

/// Returns the answer if clap has refused one of the words as a subcommand. The arguments after it
/// do not matter: clap has not read them.
pub(crate) fn explained(error: &Error) -> Option<Failure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (word, instead) = ALIASES.iter().find(|(alias, _)| alias == word)?;
    Some(Failure::usage(format!("`tenure {word}` does not exist: {instead}")))
}
