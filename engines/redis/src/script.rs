//! The scripts: one atomic step each, and all of the server's part.

use std::collections::BTreeSet;

use redis::{Cmd, ToRedisArgs};
use tenure_core::{LINE_TICKETS_MAX, NUMBER_MAX};

/// Time for which an idle line keeps its last number once the clock has passed it. A server's clock
/// may be set back by that, or be that far behind the clock of the server that it replaces, without
/// a number that is too small.
pub(crate) const KEEP_MS: u64 = 60_000;
/// Time for which a break is remembered: onlookers look more often than that.
pub(crate) const BROKEN_MS: u64 = 60_000;
/// Maximum different shares that wait in one line: each adds one count to a renewal.
pub(crate) const WAITING_SHARES_MAX: u32 = 128;
/// Count of waiters at the front that are asked to look by themselves.
const NEAR: u32 = 3;

/// The codes of verbs in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum VerbTag {
    Join = b'J',
    Renew = b'R',
    Leave = b'L',
}

/// A script, and its hash for the server.
pub(crate) struct Script {
    text: String,
    hash: String,
}

/// One script for each verb.
pub struct Scripts {
    pub(crate) join: Script,
    pub(crate) renew: Script,
    pub(crate) leave: Script,
    pub(crate) batch: Script,
    pub(crate) list: Script,
    pub(crate) look: Script,
    pub(crate) broken: Script,
    pub(crate) keys: Script,
    pub(crate) sequence: Script,
    pub(crate) count: Script,
    pub(crate) swap: Script,
}

/// The kind of push to a served ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotifyVia {
    /// One channel for each client.
    Channel,
    /// One channel for each line in which a client waits, in the slot of that line.
    Shard,
}

const NOW: &str = include_str!("scripts/now.lua");
const START: &str = include_str!("scripts/start.lua");
const IDLE_LIFE: &str = include_str!("scripts/idle_life.lua");
const READABLE: &str = include_str!("scripts/readable.lua");
const NUMBER: &str = include_str!("scripts/number.lua");
const LINE: &str = include_str!("scripts/line.lua");

// The work of a verb on a line without waiters is a function, so that a batch can call it for many
// lines.
const JOIN_IDLE: &str = include_str!("scripts/join_idle.lua");
const RENEW_ALONE: &str = include_str!("scripts/renew_alone.lua");
const LEAVE_ALONE: &str = include_str!("scripts/leave_alone.lua");
// The same for the line of a mutex.
const JOIN_BEHIND: &str = include_str!("scripts/join_behind.lua");
const LEAVE_TO_NEXT: &str = include_str!("scripts/leave_to_next.lua");
const LOOK: &str = include_str!("scripts/look.lua");

impl Scripts {
    pub(crate) fn new(post: NotifyVia) -> Self {
        let (post, master) = match post {
            NotifyVia::Channel => {
                (include_str!("scripts/post.lua"), include_str!("scripts/master.lua"))
            }
            NotifyVia::Shard => (
                include_str!("scripts/post_sharded.lua"),
                include_str!("scripts/master_sharded.lua"),
            ),
        };
        let line = [IDLE_LIFE, READABLE, LINE].concat();
        let on_a_line = |verb: &str| Script::new(&[master, START, NOW, post, &line, verb]);
        // This part needs none of the functions for other lines: each costs something to create.
        let at_once = |call: &str| {
            format!("do\n  local at_once = {call}\n  if at_once then return at_once end\nend\n")
        };
        Self {
            join: Script::new(&[
                START,
                NOW,
                JOIN_IDLE,
                &at_once("join_idle(k, head, ARGV[1], ARGV[2], now, tonumber(ARGV[4]))"),
                post,
                JOIN_BEHIND,
                &at_once(
                    "ARGV[3] ~= '0' and join_behind(k, head, ARGV[1], ARGV[2], now, tonumber(ARGV[4]))",
                ),
                master,
                &line,
                include_str!("scripts/join.lua"),
            ]),
            renew: Script::new(&[
                START,
                RENEW_ALONE,
                &at_once("not ARGV[3] and renew_alone(k, head, ARGV[1], ARGV[2])"),
                NOW,
                post,
                master,
                &line,
                include_str!("scripts/renew.lua"),
            ]),
            leave: Script::new(&[
                START,
                IDLE_LIFE,
                LEAVE_ALONE,
                &at_once("not ARGV[2] and leave_alone(k, head, ARGV[1])"),
                NOW,
                &at_once("ARGV[2] == 'long' and leave_alone(k, head, ARGV[1], now)"),
                post,
                LEAVE_TO_NEXT,
                &at_once("ARGV[2] ~= 'soon' and leave_to_next(k, head, ARGV[1], now)"),
                master,
                READABLE,
                LINE,
                include_str!("scripts/leave.lua"),
            ]),
            batch: Script::new(&[
                NOW,
                IDLE_LIFE,
                JOIN_IDLE,
                RENEW_ALONE,
                LEAVE_ALONE,
                include_str!("scripts/batch.lua"),
            ]),
            list: on_a_line(include_str!("scripts/list.lua")),
            look: Script::new(&[
                master,
                START,
                NOW,
                READABLE,
                LOOK,
                "be_master()\nreturn look(k, head, now)\n",
            ]),
            broken: Script::new(&[master, include_str!("scripts/broken.lua")]),
            keys: Script::new(&[master, NOW, READABLE, LOOK, include_str!("scripts/keys.lua")]),
            sequence: Script::new(&[master, NUMBER, include_str!("scripts/sequence.lua")]),
            count: Script::new(&[master, NUMBER, include_str!("scripts/count.lua")]),
            swap: Script::new(&[master, include_str!("scripts/swap.lua")]),
        }
    }

    /// Returns all of them, to load them.
    pub(crate) fn all(&self) -> [&Script; 11] {
        let Self { join, renew, leave, batch, list, look, broken, keys, sequence, count, swap } =
            self;
        [join, renew, leave, batch, list, look, broken, keys, sequence, count, swap]
    }
}

/// The constants of the scripts, as they stand in Lua.
fn constants() -> [(&'static str, String); 12] {
    [
        ("KEEP_MS", KEEP_MS.to_string()),
        ("BROKEN_MS", BROKEN_MS.to_string()),
        ("NUMBER_MAX", NUMBER_MAX.to_string()),
        ("TICKETS_MAX", LINE_TICKETS_MAX.to_string()),
        ("SHARES_MAX", WAITING_SHARES_MAX.to_string()),
        ("NEAR", NEAR.to_string()),
        // The ninth byte of a head is its kind.
        ("ALONE", b'a'.to_string()),
        ("FULL", b'f'.to_string()),
        // The format of a line's state, and the place of the first ticket's id behind it.
        ("FULL_FORMAT", "'<dBddddddI4I4I4B'".to_owned()),
        ("FULL_ID", "71".to_owned()),
        // The verbs of a batch.
        ("JOIN", (VerbTag::Join as u8).to_string()),
        ("LEAVE", (VerbTag::Leave as u8).to_string()),
    ]
}

/// Returns the names in the head of each of these parts: those that it uses and does not define.
fn used<'a>(parts: &[&'a str]) -> BTreeSet<&'a str> {
    let lines = parts.iter().flat_map(|part| part.lines());
    lines.filter_map(|line| line.strip_prefix("-- Uses: ")).flat_map(|it| it.split(", ")).collect()
}

impl Script {
    /// Joins the parts behind the constants that they use.
    fn new(parts: &[&str]) -> Self {
        let used = used(parts);
        let constants = constants().into_iter().filter(|(name, _)| used.contains(name));
        let constants = constants.map(|(name, value)| format!("local {name} = {value}\n"));
        let text = constants.chain([parts.concat()]).collect::<String>();
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// Returns the call of this script without a key; its arguments follow.
    pub(crate) fn on_none(&self) -> Cmd {
        self.on_all(&[] as &[&str])
    }

    /// Returns the call of this script for one key; its arguments follow.
    pub(crate) fn on(&self, key: &str) -> Cmd {
        self.on_all(&[key])
    }

    /// Returns the call of this script for these keys; its arguments follow.
    pub(crate) fn on_all(&self, keys: &[impl ToRedisArgs]) -> Cmd {
        let mut call = Cmd::with_capacity(12 * keys.len(), 512 * keys.len());
        call.arg("EVALSHA").arg(&self.hash).arg(keys.len()).arg(keys);
        call
    }

    /// Returns the command that loads it.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.text);
        load
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const KEYWORDS: &str = "and break do else elseif end false for function if in local nil not or repeat return then true until while";
    const BUILT_IN: &str =
        "redis struct string math table tonumber type pcall error ipairs unpack select KEYS ARGV";

    /// Returns the words and signs of a text in Lua, without comments and strings.
    fn tokens(text: &str) -> Vec<String> {
        let code = text.lines().map(|line| line.split("--").next().unwrap_or_default());
        let code = code.collect::<Vec<_>>().join("\n");
        let code: String = code.split('\'').step_by(2).collect::<Vec<_>>().join(" ");
        let mut tokens: Vec<String> = vec![String::new()];
        for letter in code.chars() {
            let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let last = tokens.last_mut().unwrap();
            if is_word(letter) && last.chars().all(is_word) {
                last.push(letter);
            } else if letter.is_whitespace() {
                tokens.push(String::new());
            } else {
                tokens.push(letter.to_string());
            }
        }
        tokens.retain(|token| !token.is_empty());
        tokens
    }

    /// Returns the names that a text uses and does not define.
    fn free(text: &str) -> BTreeSet<String> {
        let tokens = tokens(text);
        let names = |from: usize| tokens[from..].iter().step_by(2);
        let mut defined = BTreeSet::new();
        let mut free = BTreeSet::new();
        for (at, token) in tokens.iter().enumerate() {
            let next = tokens.get(at + 1).map(String::as_str);
            match token.as_str() {
                "local" if next == Some("function") => {
                    defined.insert(tokens[at + 2].clone());
                }
                "local" | "for" => {
                    let commas = tokens[at + 2..].iter().step_by(2).take_while(|it| *it == ",");
                    defined.extend(names(at + 1).take(commas.count() + 1).cloned());
                }
                "function" => {
                    let open = at + tokens[at..].iter().position(|it| it == "(").unwrap();
                    let close = tokens[open..].iter().position(|it| it == ")").unwrap();
                    defined.extend(names(open + 1).take(close / 2).cloned());
                }
                _ => {}
            }
            let is_field = at > 0 && tokens[at - 1] == "." && (at < 2 || tokens[at - 2] != ".");
            let is_name = token.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
            let is_known = |words: &str| words.split(' ').any(|word| word == token);
            if is_name && !is_field && !is_known(KEYWORDS) && !is_known(BUILT_IN) {
                free.insert(token.clone());
            }
        }
        &free - &defined
    }

    #[test]
    fn each_script_names_at_its_head_what_it_uses_and_does_not_define() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let head: BTreeSet<String> = used(&[&text]).into_iter().map(str::to_owned).collect();
            assert_eq!(head, free(&text), "{}", path.display());
        }
    }

    #[test]
    fn a_whole_script_uses_nothing_that_it_does_not_define() {
        for post in [NotifyVia::Channel, NotifyVia::Shard] {
            for script in Scripts::new(post).all() {
                assert_eq!(free(&script.text), BTreeSet::new(), "{}", script.text);
            }
        }
    }

    #[test]
    fn every_constant_is_used() {
        let text =
            Scripts::new(NotifyVia::Channel).all().map(|script| script.text.clone()).concat();
        for (name, _) in constants() {
            assert!(text.contains(&format!("local {name} = ")), "{name}");
        }
    }
}
