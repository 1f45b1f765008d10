//! A guarded script: the check of the token and the user's text as one script.

use std::sync::LazyLock;

use redis::{Arg, Cmd};
use tenure_core::{Error, Result};

/// A Lua script that a [`Fence`](crate::Fence) runs under guard.
///
/// Its text is one that `EVAL` accepts. The script finds its own `KEYS` and `ARGV`, may declare
/// locals and return early, and an error has the line number of its own text. Create it once and
/// use it often: the client sends the text only to a server that does not know it yet.
#[derive(Clone, Debug)]
pub struct FencedScript {
    text: String,
    hash: String,
}

/// `check.lua` in one line and without its comments, so that the user's first line stays line one.
static CHECK: LazyLock<String> = LazyLock::new(|| {
    let lines = include_str!("check.lua").lines().map(str::trim);
    lines.filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join(" ")
});

impl FencedScript {
    /// Returns a script with this text. The server compiles it on the first run. If that fails,
    /// nothing is changed.
    ///
    /// # Errors
    ///
    /// The text begins with a `#!lua` line, whose flags would apply to the check as well.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        if text.starts_with("#!") {
            return Err(Error::invalid("a guarded script cannot have a `#!` line: remove it"));
        }
        Ok(Self::guarded(text))
    }

    /// Puts the text inside a function whose parameter hides the only local of `check.lua`. The
    /// line break ends a comment in the last line.
    pub(crate) fn guarded(text: &str) -> Self {
        let text = format!("{} return tenure((function(tenure) {text}\nend)())", *CHECK);
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// Returns a call without keys and arguments, for a server that knows the script.
    pub(crate) fn by_hash(&self) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.hash);
        call
    }

    /// Returns the same call for a server that does not know the script yet. In a Cluster it goes
    /// to the same node, which `SCRIPT LOAD` would not.
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
