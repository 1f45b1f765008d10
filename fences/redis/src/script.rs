//! A script under guard: the check, then its own text, sent as one.

use std::sync::LazyLock;

use redis::{Arg, Cmd};
use tenure_core::{Error, Result};

/// A Lua script that a [`Fence`](crate::Fence) runs under guard.
///
/// It is the text that `EVAL` takes. It finds `KEYS` and `ARGV` as it was given them, may declare
/// locals and return early, and an error is reported with the line of its own text. Make it once and
/// use it often: the server is sent the text only if it does not know it yet.
#[derive(Clone, Debug)]
pub struct FencedScript {
    text: String,
    hash: String,
}

/// `check.lua` without its comments and in one line, so that the first line of what
/// follows it is line one.
static CHECK: LazyLock<String> = LazyLock::new(|| {
    let lines = include_str!("check.lua").lines().map(str::trim);
    lines.filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join(" ")
});

impl FencedScript {
    /// A script of this text.
    ///
    /// A `#!lua` line is refused: its flags would be those of the guard as well. What does not compile
    /// is refused by the server when it is run, with nothing changed.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.starts_with("#!") {
            return Err(Error::invalid(
                "a guarded script cannot have a `#!` line: leave it out, the guard runs the rest",
            ));
        }
        Ok(Self::guarded(text))
    }

    /// The text is inside a function that has the guard's one local as a parameter of its own, and so
    /// cannot see it. The line break ends a comment in the last line.
    pub(crate) fn guarded(text: &str) -> Self {
        let text = format!("{} return tenure((function(tenure) {text}\nend)())", *CHECK);
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// The call of it, for a server that knows it; its keys and arguments follow.
    pub(crate) fn by_hash(&self) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash);
        call
    }

    /// The same call, for a server that does not know it yet. It goes where the first one went,
    /// which `SCRIPT LOAD` in a Cluster would not.
    pub(crate) fn by_text(&self, by_hash: &Cmd) -> Cmd {
        let mut call = redis::cmd("EVAL");
        call.arg(&self.text);
        for arg in by_hash.args_iter().skip(2) {
            if let Arg::Simple(bytes) = arg {
                call.arg(bytes);
            }
        }
        call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_stays_the_first() {
        let script = FencedScript::new("return 1\n-- the end").unwrap();
        let lines: Vec<&str> = script.text.lines().collect();
        assert!(lines[0].ends_with("(function(tenure) return 1"), "{}", lines[0]);
        assert_eq!(lines[1..], ["-- the end", "end)())"]);
    }

    #[test]
    fn both_calls_carry_the_same() {
        let script = FencedScript::new("return KEYS").unwrap();
        let mut by_hash = script.by_hash();
        by_hash.arg(1).arg("key").arg(b"\0\xff");
        let all =
            |call: &Cmd| call.args_iter().map(|arg| format!("{arg:?}")).skip(2).collect::<Vec<_>>();
        assert_eq!(all(&by_hash), all(&script.by_text(&by_hash)));
    }
}
