//! Subcommands that other tools have: each is answered with the command that does it.

use clap::Error;
use clap::error::{ContextKind, ContextValue};

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

/// Returns the answer if clap has refused one of the words as a subcommand. The arguments after it
/// do not matter: clap has not read them.
pub(crate) fn explained(error: &Error) -> Option<Failure> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (word, instead) = ALIASES.iter().find(|(alias, _)| alias == word)?;
    Some(Failure::usage(format!("`tenure {word}` does not exist: {instead}")))
}
