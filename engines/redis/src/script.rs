//! The scripts: one atomic step each, the whole of what the server has to know about lines.

use redis::{Cmd, ToRedisArgs};
use tenure_core::{LINE_TICKETS_MAX, NUMBER_MAX};

/// For how long an idle line keeps its last number once the clock has passed it. It is what a server's clock may
/// be set back by, or be behind that of the server whose place it takes, without a number that is too small.
pub(crate) const KEEP_MS: u64 = 60_000;
/// So many different shares may wait in one line at a time: each costs a renewal a count.
pub(crate) const WAITING_SHARES_MAX: u32 = 128;
/// So many waiters at the front are asked to look by themselves.
const NEAR: u32 = 3;

/// A script, and the hash by which the server knows it.
pub(crate) struct Script {
    text: String,
    hash: String,
}

/// One script for each verb.
pub struct Scripts {
    pub(crate) join: Script,
    pub(crate) renew: Script,
    pub(crate) leave: Script,
    pub(crate) bundle: Script,
    pub(crate) list: Script,
    pub(crate) look: Script,
    pub(crate) keys: Script,
    pub(crate) sequence: Script,
    pub(crate) count: Script,
}

/// How a served ticket is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Post {
    /// Each client listens to one channel.
    Channel,
    /// Each client listens to one channel for each line that it waits in, in the slot of that line.
    Shard,
}

const CLOCK: &str = include_str!("scripts/clock.lua");
const START: &str = include_str!("scripts/start.lua");
const LINE: &str = include_str!("scripts/line.lua");

// What a verb does to a line where nobody waits is a function: a bundle calls it for many lines.
const JOIN_IDLE: &str = include_str!("scripts/join_idle.lua");
const RENEW_ALONE: &str = include_str!("scripts/renew_alone.lua");
const LEAVE_ALONE: &str = include_str!("scripts/leave_alone.lua");
const LOOK: &str = include_str!("scripts/look.lua");

impl Scripts {
    pub(crate) fn new(post: Post) -> Self {
        let (post, master) = match post {
            Post::Channel => (include_str!("scripts/post.lua"), include_str!("scripts/master.lua")),
            Post::Shard => (
                include_str!("scripts/post_sharded.lua"),
                include_str!("scripts/master_sharded.lua"),
            ),
        };
        let begin = limits() + CLOCK + master;
        let on_a_line = |verb: &str| Script::new([&begin, START, post, LINE, verb].concat());
        // What is done at once needs none of the functions that a line with others in it does.
        let or_at_once = |quick: &str, call: &str, verb: &str| {
            let at_once = format!("local at_once = {call}\nif at_once then return at_once end\n");
            Script::new([&begin, START, quick, &at_once, post, LINE, verb].concat())
        };
        let with = |parts: &[&str]| Script::new(begin.clone() + &parts.concat());
        Self {
            join: or_at_once(
                JOIN_IDLE,
                "join_idle(k, head, ARGV[1], ARGV[2], tonumber(ARGV[4]))",
                include_str!("scripts/join.lua"),
            ),
            renew: or_at_once(
                RENEW_ALONE,
                "ARGV[3] == '0' and renew_alone(k, head, ARGV[1], ARGV[2])",
                include_str!("scripts/renew.lua"),
            ),
            leave: or_at_once(
                LEAVE_ALONE,
                "ARGV[2] == '0' and leave_alone(k, head, ARGV[1])",
                include_str!("scripts/leave.lua"),
            ),
            bundle: with(&[
                JOIN_IDLE,
                RENEW_ALONE,
                LEAVE_ALONE,
                include_str!("scripts/bundle.lua"),
            ]),
            list: on_a_line(include_str!("scripts/list.lua")),
            look: with(&[START, LOOK, "be_master()\nreturn look(k, head)\n"]),
            keys: with(&[LOOK, include_str!("scripts/keys.lua")]),
            sequence: with(&[include_str!("scripts/sequence.lua")]),
            count: with(&[include_str!("scripts/count.lua")]),
        }
    }

    /// All of them, to be loaded.
    pub(crate) fn all(&self) -> [&Script; 9] {
        let Self { join, renew, leave, bundle, list, look, keys, sequence, count } = self;
        [join, renew, leave, bundle, list, look, keys, sequence, count]
    }
}

/// The limits, as the scripts know them.
fn limits() -> String {
    format!(
        "local KEEP_MS, NUMBER_MAX, TICKETS_MAX = {KEEP_MS}, {NUMBER_MAX}, {LINE_TICKETS_MAX}\n\
         local SHARES_MAX, NEAR = {WAITING_SHARES_MAX}, {NEAR}\n\
         -- What the head of a line with one ticket in it begins with.\n\
         local ALONE = {}\n",
        b'a'
    )
}

impl Script {
    fn new(text: String) -> Self {
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self { text, hash }
    }

    /// The call of this script for no key in particular; its arguments follow.
    pub(crate) fn on_none(&self) -> Cmd {
        self.on_all(&[] as &[&str])
    }

    /// The call of this script for one key; its arguments follow.
    pub(crate) fn on(&self, key: &str) -> Cmd {
        self.on_all(&[key])
    }

    /// The call of this script for these keys; its arguments follow.
    pub(crate) fn on_all(&self, keys: &[impl ToRedisArgs]) -> Cmd {
        let mut call = Cmd::with_capacity(12 * keys.len(), 512 * keys.len());
        call.arg("EVALSHA").arg(&self.hash).arg(keys.len()).arg(keys);
        call
    }

    /// What makes the server know it.
    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&self.text);
        load
    }
}
